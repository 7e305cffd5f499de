// fuse_epilogue: the pointwise nest behind a producer is applied to each tile as soon as the tile is complete.
//
//   fuse_epilogue y at i_o in registers -> y_0
//     for acc_0 { acc[acc_0] = 0 }                        for i_o { alloc acc[8]:
//     for i_o { for k { for i_i { acc[i_o*8+i_i] += .. }}}  →   for acc_0 in 0..8 { acc[acc_0] = 0 }
//     for y_0 { y[y_0] = relu(acc[y_0]) }                       for k { for i_i { acc[i_i] += .. } }
//                                                               for y_0 in 0..8 { y[i_o*8+y_0] = relu(acc[y_0]) } }
//
// The nests that initialise the producer move along. A producer that is an output, or that another nest reads as well,
// stays whole where it is; the last of several consumers shrinks it. With `bringing` behind the place, nests between the two
// that compute what else the consumer reads, and have nothing to do with the producer, move in front of it. A consumer may read several
// results of the loop, all of one shape: then the box is that of all of them. Legality: one iteration of the loop completes a box
// of the producer, boxes of different iterations are disjoint and cover it; the consumer reads it at plain loops and is
// a single store; nothing in between conflicts. Rejections: illegal_epilogue (says which), unknown_buffer,
// unknown_loop; too_large or illegal_epilogue where the box does not fit `registers`.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct FuseEpilogue {
  static constexpr std::string_view kVerb = "fuse_epilogue";
  std::string consumer, loop;
  Place place = Place::registers;
  bool bringing = false;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.consumer);
    f.word("at");
    f.name(s.loop);
    f.word("in");
    f.choice(place_words(), s.place);
    f.optional_word("bringing", s.bringing);
  }
};

Result<Applied> apply(const ir::Kernel& k, const FuseEpilogue& step);

}  // namespace loopwright::schedule
