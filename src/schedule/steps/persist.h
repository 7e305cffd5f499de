// persist: the iterations of a grid loop are shared out among a fixed number of blocks.
//
//   persist t over 132 turns 2 -> t_block t_round t_turn
//     for t in 0..n grid_x { S(t) }   →
//     for t_block in 0..132 grid_x { for t_round in 0..ceil_div(n, 264) { for t_turn in 0..2 thread_y {
//       let t = t_round*264 + t_turn*132 + t_block { if t < n { S(t) } } } } }
//
// With one turn there is no loop over turns. A ring inside goes on from one iteration to the next: its copies run ahead of
// what follows a tile. With several turns the groups of threads have tiles of their own and take turns at the tensor
// cores, so that one multiplies while another finishes its tile. Legality: the loop is bound to grid_x, and no loop inside
// is bound to thread_y when there are several turns. Rejections: illegal_bind (says which), unknown_loop, bad_argument
// (blocks outside 1..65535, turns outside 1..3).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Persist {
  static constexpr std::string_view kVerb = "persist";
  std::string loop;
  std::int64_t blocks = 1, turns = 1;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("over");
    f.number(s.blocks);
    f.word("turns");
    f.number(s.turns);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Persist& step);

}  // namespace loopwright::schedule
