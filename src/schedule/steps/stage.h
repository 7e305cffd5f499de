// stage: the region of a buffer that a loop's body reads is copied to a local buffer first, in a layout of choice.
//
//   stage x at i in shared order 1, 0 tiles 8, 1 -> x_packed_0 x_packed_1 x_packed_2
//     for i { .. x[r, c] .. }   →   for i { alloc x_packed[cols, ceil_div(rows, 8), 8]:
//                                     for .. { x_packed[c, r floor_div 8, r mod 8] = x[r, c], or 0 beyond }
//                                     .. x_packed[c, r floor_div 8, r mod 8] .. }
//
// `order` permutes the dimensions; each factor above 1 in `tiles` (one a dimension of the buffer) moves an innermost
// tile of that dimension to the end. What feeds a fragment is staged in whole tiles. Positions beyond the region or
// the buffer hold zero. `at *` stages the whole buffer at the start of the kernel, an intermediate behind the nest that
// computes it. Conditions in the body that only kept such positions away go (see drop_guards). With `converted`, every read of the body goes through a cast to one dtype, or is rounded to tf32, and the copy holds what that gives.
// Legality: the body reads the buffer and does not write it, nothing around the loop writes it, and it is an input or
// written in full before. Rejections: illegal_stage (says which), bad_argument (order, tiles), unknown_buffer,
// unknown_loop; too_large or illegal_stage where the region does not fit `registers`.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Stage {
  static constexpr std::string_view kVerb = "stage";
  std::string buffer, loop;  ///< an empty loop: the whole kernel
  Place place = Place::shared;
  std::vector<int> order;
  std::vector<std::int64_t> tiles;
  bool converted = false;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.buffer);
    f.word("at");
    f.name_or_all(s.loop);
    f.word("in");
    f.choice(place_words(), s.place);
    f.optional_numbers("order", s.order);
    f.optional_numbers("tiles", s.tiles);
    f.optional_word("converted", s.converted);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Stage& step);

}  // namespace loopwright::schedule
