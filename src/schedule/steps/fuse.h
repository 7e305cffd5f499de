// fuse: two directly nested loops → one.
//
//   fuse i j -> i_f
//     for i in 0..n { for j in 0..m { S(i, j) } }   →   for i_f in 0..n*m { S(i_f floor_div m, i_f mod m) }
//
// Legality: the order of iterations stays the same. The inner loop is all that the outer one holds (conditions between
// them move inside), and its extent does not depend on the outer. Rejections: not_nested, illegal_fuse (extent depends
// on the outer loop), bad_argument (a loop that is not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Fuse {
  static constexpr std::string_view kVerb = "fuse";
  std::string outer, inner;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.outer);
    f.name(s.inner);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Fuse& step);

}  // namespace loopwright::schedule
