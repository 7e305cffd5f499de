// separate: products of f32 values become sums of products of bf16 parts, for tensor cores, in f32 accuracy.
//
//   separate k_i -> x_parts_0 x_parts_1 x_parts_2 w_parts_0 w_parts_1 w_parts_2
//     for k_o { for k_i { for m { for k { acc[m] += x[m, k]*w[k] } } } }   →
//     alloc x_parts[3, ..]: for .. { for part in 0..3 { x_parts[part, m, k] = the part of x[m, k] } }; the same for w
//       for k_o { for k_i { alloc acc_sum[..]: acc_sum = 0
//         for p in 0..3 { .. { acc_sum[m] += f32(x_parts[p, m, k])*f32(w_parts[2 - p, k]) } }; acc_sum = acc_sum/256
//         for p in 0..2 { .. { acc_sum[m] += f32(x_parts[p, m, k])*f32(w_parts[1 - p, k]) } }; acc_sum = acc_sum/256
//         for p in 0..1 { .. { acc_sum[m] += f32(x_parts[p, m, k])*f32(w_parts[0 - p, k]) } }; acc = acc + acc_sum } }
//
// x is x_parts[0] + x_parts[1]/2^8 + x_parts[2]/2^16, each the bf16 rounding of the rest, exactly: denormals too, as every
// part has its own scale. What is left out is below 2^-24 of a product, or, of denormals, below 2^-156 of the other factor.
// An infinite x has the parts 1 (-1), 0, x, so that it meets first parts alone, which are zero for zero alone; what rounds beyond the largest bf16 is cut there, and the next part has the rest.
// Tensor cores truncate what they add, so few summands go into one acc_sum. The results differ from those of f32
// arithmetic in rounding.
//
// A bf16 factor, read through a cast, is one part as it is: then three products are all there are, and nothing is left out.
//
//   separate k_i rechecked -> ..
//     the same, and behind the loops around that fill acc:
//     alloc acc_plain[..]: acc_plain = 0; for m { if not abs(acc[m]) <= largest { for k_o, k_i, k { acc_plain[m] += x[m, k]*w[k] } } }; acc = acc_plain there
//
// Then parts take no care of infinities and of what is near the largest float (their rest is NaN), and cost less where each
// block makes its own; a sum that is no finite number in f32 either takes the time of plain arithmetic.
// Legality: the loop's body is one nest around a sum of products of two inputs of the kernel, f32 or one of them bf16 (then
// rechecked), into a buffer that is allocated inside it; rechecked: the loops around it, inside the buffer's allocation, hold
// nothing else, and those that index the sum have constant extents. Rejections: illegal_tensorize (says which), unknown_loop, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Separate {
  static constexpr std::string_view kVerb = "separate";
  std::string loop;
  bool rechecked = false;  ///< sums that are infinite or NaN are made again in plain arithmetic

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.optional_word("rechecked", s.rechecked);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Separate& step);

}  // namespace loopwright::schedule
