// hold: inside a loop's body, a buffer that the body writes is held in a local tile.
//
//   hold acc at j_o in registers -> acc_tile_0
//     for j_o { for k { for j_i { acc[j_o*8+j_i] += .. } } }   →
//     for j_o { alloc acc_tile[8]: for .. { acc_tile[t] = acc[j_o*8+t] }
//               for k { for j_i { acc_tile[j_i] += .. } }
//               for acc_tile_0 in 0..8 { acc[j_o*8+acc_tile_0] = acc_tile[acc_tile_0] } }
//
// The tile is filled only where the body does not begin by writing all of it; when one iteration completes the tile, a
// nest in front that initialises the buffer moves in and fills it. Legality: some write of the body covers the whole
// box of all accesses. Rejections: illegal_hold (says what is accessed), unknown_buffer, unknown_loop; too_large or
// illegal_hold where the box does not fit `registers`.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Hold {
  static constexpr std::string_view kVerb = "hold";
  std::string buffer, loop;
  Place place = Place::registers;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.buffer);
    f.word("at");
    f.name(s.loop);
    f.word("in");
    f.choice(place_words(), s.place);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Hold& step);

}  // namespace loopwright::schedule
