// split_targets: what writes where data says is gone through once for each part of the target.
//
//   split_targets i by 64 -> i_t
//     for i in 0..n { for j in 0..m { if 0 <= at[i] < s { y[at[i], j] += x[i, j] } } }   →
//     for i_t in 0..ceil_div(s, 64) { for i { for j { if 0 <= at[i] < s { if i_t*64 <= at[i] < i_t*64 + 64 {
//       y[i_t*64 + at[i] mod 64, j] += x[i, j] } } } } }
//
// Iterations of i_t write different elements, so that they may be shared out, and every element is written in the order in
// which it was: results are the same bit for bit. Legality: the loop holds one store or update; exactly one dimension is
// indexed by data that the loops move through; nothing inside reads what is written.
// Rejections: illegal_bind (says which), bad_argument (parts of fewer than one element), unknown_loop.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct SplitTargets {
  static constexpr std::string_view kVerb = "split_targets";
  std::string loop;
  std::int64_t part = 1;  ///< elements of the dimension

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("by");
    f.number(s.part);
  }
};

Result<Applied> apply(const ir::Kernel& k, const SplitTargets& step);

}  // namespace loopwright::schedule
