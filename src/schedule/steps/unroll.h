// unroll: the iterations of a loop become copies of its body.
//
//   unroll i
//     for i in 0..4 { S(i) }   →   for i in 0..4 unroll { S(i) }
//
// Legality: a constant extent, at most 64 copies, at most 1024 together with the unrolled loops around and inside.
// Rejections: illegal_unroll (the extent is not constant), too_large, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Unroll {
  static constexpr std::string_view kVerb = "unroll";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Unroll& step);

}  // namespace loopwright::schedule
