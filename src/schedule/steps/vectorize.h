// vectorize: the iterations of a loop become lanes of one instruction stream.
//
//   vectorize i
//     for i in 0..16 { S(i) }   →   for i in 0..16 vectorize { S(i) }
//
// Legality: a constant extent of at most 256; nothing inside but unrolled loops, conditions, Lets and stores; not inside
// another vectorized loop; no iteration touches what another writes. Rejections: illegal_vectorize (names the accesses,
// the loop inside or the extent), too_large, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Vectorize {
  static constexpr std::string_view kVerb = "vectorize";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Vectorize& step);

}  // namespace loopwright::schedule
