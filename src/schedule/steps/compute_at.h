// compute_at: an intermediate is computed inside a loop of its reader, just the region that one iteration reads.
//
//   compute_at t at i in registers
//     for t_0 in 0..n { t[t_0] = f(t_0) }           for i in 0..n {
//     for i in 0..n { y[i] = g(t[i]) }          →     alloc t[1]: for t_0 in 0..1 { t[t_0] = f(i + t_0) }; y[i] = g(t[0]) }
//
// The nests keep their loops and names. Legality: all nests that compute the buffer come before the reader in one
// sequence, compute nothing else, and are plain along the dimensions that shrink; nobody outside the loop reads the
// buffer; what they read is not overwritten in between. Rejections: illegal_compute_at (says which of these),
// unknown_buffer, unknown_loop; too_large or illegal_compute_at where the region does not fit `registers`.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct ComputeAt {
  static constexpr std::string_view kVerb = "compute_at";
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

Result<Applied> apply(const ir::Kernel& k, const ComputeAt& step);

}  // namespace loopwright::schedule
