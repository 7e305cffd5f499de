// assume_multiple, assume_alignment: what the variant may rely on; the kernel's guard says it to whoever launches it.
//
//   assume_multiple tokens 8      serves only values of the symbol that are multiples of 8
//   assume_alignment 64           every buffer address is a multiple of 64 bytes
//
// Rejections: unknown_name (no such symbol), bad_argument (a factor below 1 or one that no value in the symbol's range
// is a multiple of; an alignment that is not a power of two up to 4096).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct AssumeMultiple {
  static constexpr std::string_view kVerb = "assume_multiple";
  std::string symbol;
  std::int64_t factor = 1;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.symbol);
    f.number(s.factor);
  }
};

struct AssumeAlignment {
  static constexpr std::string_view kVerb = "assume_alignment";
  std::int64_t bytes = 1;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.number(s.bytes);
  }
};

Result<Applied> apply(const ir::Kernel& k, const AssumeMultiple& step);
Result<Applied> apply(const ir::Kernel& k, const AssumeAlignment& step);

}  // namespace loopwright::schedule
