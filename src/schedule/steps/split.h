// split: one loop → several, each inner one with a constant extent.
//
//   split i by 8, 4 tail guard -> i_o i_1 i_i
//     for i in 0..n { S(i) }   →   for i_o in 0..ceil_div(n, 32) { for i_1 in 0..8 { for i_i in 0..4 {
//                                    if i_o*32 + i_1*4 + i_i < n { S(i_o*32 + i_1*4 + i_i) } } } }
//
// Legality: the order of iterations stays the same, so every serial loop may be split. `exact` needs a factor that
// divides the extent, by arithmetic or by an assumption; the condition is left out then, and with `guard` where it is
// proved. Rejections: bad_argument (no factor, or one below 1; a loop that is not serial), too_large (product of the
// factors above 2^31), not_divisible (names the extent and the product).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Split {
  static constexpr std::string_view kVerb = "split";
  std::string loop;
  std::vector<std::int64_t> factors;  ///< outermost first
  Tail tail = Tail::guard;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("by");
    f.numbers(s.factors);
    f.word("tail");
    f.choice(tail_words(), s.tail);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Split& step);

}  // namespace loopwright::schedule
