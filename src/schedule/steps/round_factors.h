// round_factors: factors of a product of f32 values are rounded to tf32, for tensor cores.
//
//   round_factors k
//     for k { acc[m, n] += x[m, k]*w[n, k] }   →  for k { acc[m, n] += round_tf32(x[m, k])*round_tf32(w[n, k]) }
//
// The only step that makes a kernel less accurate than its dtypes: each factor loses up to 2^-11 of itself (one that rounds
// beyond the largest number becomes infinite). What it is staged in can hold the rounded values (stage .. converted), and the
// copy engine rounds on the way. Legality: the kernel allows tf32; inside the loop are sums of products of two f32 values
// that are loaded, and nothing that was rounded before. Rejections: illegal_tensorize (says which), unknown_loop, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct RoundFactors {
  static constexpr std::string_view kVerb = "round_factors";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

Result<Applied> apply(const ir::Kernel& k, const RoundFactors& step);

}  // namespace loopwright::schedule
