// scan_across: a loop whose iterations each combine the last one's result with a value becomes passes over chunks.
//
//   scan_across i ways 256 chunk 4 blocks 1 -> i_r i_w i_v i_w_2 i_v_2 i_c i_w_3 i_v_3 i_w_4 i_v_4
//     for i in 0..n { y[i] = select(i == 0, 0, y[i - 1]) + f(i) }   →
//     alloc y_carry[]: y_carry[] = 0
//       for i_r in 0..ceil_div(n, 1024) { alloc y_part[256, 4]: alloc y_before[256]:
//         for i_w in 0..256 { for i_v in 0..4 { y_part[i_w, i_v] = f(at), 0 beyond } }      with at = i_r*1024 + i_w*4 + i_v
//         for i_w_2 { for i_v_2 { y_part[i_w_2, i_v_2] = select(i_v_2 == 0, 0, y_part[i_w_2, i_v_2 - 1]) + y_part[i_w_2, i_v_2] } }
//         for i_c in 0..256 { y_before[i_c] = y_carry[]; y_carry[] += y_part[i_c, 3] }
//         for i_w_3 { for i_v_3 { y_part[i_w_3, i_v_3] = y_before[i_w_3] + y_part[i_w_3, i_v_3] } }
//         for i_w_4 { for i_v_4 { if at < n { y[at] = y_part[i_w_4, i_v_4] } } } }
//
// The loop i_c may be bound to `across`. With several blocks each has a share of the ways: all loops over ways are two then,
// over blocks outside and a block's ways inside (i_b, i_w), and there are two combinations, y_share[i_b] of each block's ways
// and y_carry of the blocks. Loops inside `i` (of constant extents, each iteration with elements of its own) stay inside, and
// the local buffers have a dimension more for each of them; they stand outside i_c.
// Floats are added in another order. Legality: the loop holds one store, as above, of an operation with a neutral element
// (add, mul, min, max); f does not read the buffer; nothing but the loop's own variable moves the element.
// Rejections: illegal_reduce_across (says which), bad_argument (ways outside 1..65536, a chunk outside 1..64, blocks that do
// not divide the ways), unknown_loop, too_large where a pass does not fit registers.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct ScanAcross {
  static constexpr std::string_view kVerb = "scan_across";
  std::string loop;
  std::int64_t ways = 1;   ///< chunks of a pass, of all blocks
  std::int64_t chunk = 1;  ///< elements that stand one behind the other
  std::int64_t blocks = 1;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("ways");
    f.number(s.ways);
    f.word("chunk");
    f.number(s.chunk);
    f.word("blocks");
    f.number(s.blocks);
  }
};

Result<Applied> apply(const ir::Kernel& k, const ScanAcross& step);

}  // namespace loopwright::schedule
