// inline_buffer: the definition of an intermediate replaces its reads: a pointwise one, or a reduction over few terms.
//
//   inline_buffer t
//     for t_0 { t[t_0] = f(x[t_0]) }                 for y_0 { y[y_0] = g(f(x[y_0])) }
//     for y_0 { y[y_0] = g(t[y_0]) }             →
//
// A definition that a statement reads several times at one index is bound by a Let in front of it. A reduction is written
// out, term after term in their order. Legality: one nest computes the buffer, a single store at plain loops over all of it,
// or one begins a reduction of one value and another carries it out, over at most 64 constant terms; what it reads is not
// overwritten afterwards.
// Rejections: illegal_inline (says which), unknown_buffer, too_large (a statement would pass 20000 nodes).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct InlineBuffer {
  static constexpr std::string_view kVerb = "inline_buffer";
  std::string buffer;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.buffer);
  }
};

Result<Applied> apply(const ir::Kernel& k, const InlineBuffer& step);

}  // namespace loopwright::schedule
