// cache: what loads of an input ask of a GPU's caches.
//
//   cache x evict_first
//     kernel f(x: f32[n] in, ..)   →   kernel f(x: f32[n] in evict_first, ..)
//
// `no_allocate`: no line of the first level is given to it. `evict_first`: that, and its lines of the second level are the first to go: for
// what is read once. `evict_last`: they are the last to go: for what all blocks read. Copies of whole rows by the copy engine (ring) take
// the second level's. Without a GPU nothing changes.
// Legality: `x` is an input that the kernel does not write, f32, bf16 or f16; capability 8.0, which is looked at when the text is written.
// Rejections: unknown_buffer, bad_argument (says which).
#pragma once

#include "src/ir/kernel.h"
#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Cache {
  static constexpr std::string_view kVerb = "cache";
  std::string buffer;
  ir::CachePolicy policy = ir::CachePolicy::normal;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    static const std::vector<std::string_view> kWords = {"normal", "no_allocate", "evict_first", "evict_last"};
    f.name(s.buffer);
    f.choice(kWords, s.policy);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Cache& step);

}  // namespace loopwright::schedule
