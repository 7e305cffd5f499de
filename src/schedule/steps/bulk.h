// bulk: a tile in shared memory is copied to a parameter by the copy engine.
//
//   bulk t_0
//     for t_0 in 0..64 { for t_1 in 0..64 { if i*64 + t_0 < n { y[i*64 + t_0, j*64 + t_1] = t[t_0, t_1] } } }   →
//     for t_0 in 0..64 bulk { .. }
//
// The threads go on while the engine reads the tile; who fills it again waits. Where the tile lies in shared memory, and
// who waits for whom, follow when the text is written. Legality: the nest is a copy without a conversion from shared
// memory to a 16-bit or f32 parameter, conditions keep it inside the parameter and say nothing else but where its rows end
// (a tile that reaches beyond that end is written by the threads, from a column at a multiple of 16 bytes on), and the kernel does not read the parameter; rows of 32, 64 or a multiple
// of 128 bytes, a multiple of 8 and at most 256 of them; rows of the parameter begin at multiples of 16 bytes and so does
// every buffer (assume_alignment). Rejections: illegal_bind (says which), unknown_loop, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Bulk {
  static constexpr std::string_view kVerb = "bulk";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Bulk& step);

}  // namespace loopwright::schedule
