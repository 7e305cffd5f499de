// tensorize: a product of two tiles is done by tensor cores.
//
//   tensorize m, n, k
//     for m in 0..64 { for n in 0..128 { for k in 0..64 { acc[m, n] += f32(a[m, k])*f32(b[n, k]) } } }
//     →  for m in 0..64 mma { for n in 0..128 { for k in 0..64 { .. } } }
//
// Which instruction, how the tiles lie in shared memory and which thread holds what of `acc` follow when the text is
// written. Conditions that are the same for the whole tile go outside, those beyond which both tiles were staged as
// zeros go altogether. Legality: the three loops are one nest, in this order, around one update; 64 rows, a multiple of 8
// up to 256 columns, summands a multiple of 16 (of f32: 8); both tiles bf16, both f16, or both f32 rounded to tf32 as they were
// filled (round_factors, stage .. converted), in shared memory, each walked through in steps of one along one of its loops, which
// for f32 is the reduction; the accumulator is f32 and a fragment with rows of exactly the columns, or stands on its side. Or a
// product of one warp: 16 rows, 8 columns and 16, 32 or 64 summands, both tiles staged in fragments, summands side by side.
// Or one of a warpgroup, behind the tile that its sums belong to: a multiple of 64 rows and of 8 columns, at most 64 summands,
// both tiles bf16, f16 or f32 and staged in fragments that nothing else reads.
// The tensor cores add in an order of their own. Rejections: illegal_tensorize (says which), unknown_loop, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Tensorize {
  static constexpr std::string_view kVerb = "tensorize";
  std::vector<std::string> loops;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.names(s.loops);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Tensorize& step);

}  // namespace loopwright::schedule
