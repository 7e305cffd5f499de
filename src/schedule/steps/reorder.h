// reorder: loops of one perfect nest in another order, in the places they occupy together.
//
//   reorder k, j
//     for j { for k { S(j, k) } }   →   for k { for j { S(j, k) } }
//
// Conditions between the loops move along: each stands right inside the innermost loop that it uses. Legality: no
// dependence between iterations changes its direction (updates of an exact monoid, such as max or an integer sum, may
// change places). Rejections: bad_argument (fewer than two loops, one twice, one that is not serial or unroll),
// not_nested, illegal_reorder (names the two accesses; or an extent that uses another of the loops; or a vectorized
// loop in between).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Reorder {
  static constexpr std::string_view kVerb = "reorder";
  std::vector<std::string> loops;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.names(s.loops);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Reorder& step);

}  // namespace loopwright::schedule
