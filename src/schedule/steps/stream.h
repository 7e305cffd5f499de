// stream: an output is written past the caches (a GPU's let its lines go first), so that its lines are not read first and
// push nothing out.
//
//   stream y
//     kernel f(.., y: f32[n] out)   →   kernel f(.., y: f32[n] out streamed)
//
// Pays for outputs that no cache would keep; what is read soon after is better left there.
// Legality: `y` is an output that the kernel does not read. Rejections: unknown_buffer, bad_argument (says which).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Stream {
  static constexpr std::string_view kVerb = "stream";
  std::string buffer;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.buffer);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Stream& step);

}  // namespace loopwright::schedule
