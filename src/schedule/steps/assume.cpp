#include "src/schedule/steps/assume.h"

#include <algorithm>
#include <bit>

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

namespace {

constexpr std::int64_t kMaxAlignment = 4096;

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const AssumeMultiple& step) {
  const auto it = std::find_if(k.symbols.begin(), k.symbols.end(),
                               [&](const ir::SymbolParam& s) { return s.symbol.name == step.symbol; });
  std::vector<std::string> names;
  for (const ir::SymbolParam& s : k.symbols) names.push_back(s.symbol.name);
  if (it == k.symbols.end())
    return rejected(ErrorCode::unknown_name, "no symbol is named `" + step.symbol + "`", {},
                    names.empty() ? "a kernel with symbols" : "one of " + text::join(names, ", "));
  const Symbol& symbol = it->symbol;
  if (step.factor < 1 || symbol.hi / step.factor * step.factor < symbol.lo)
    return rejected(ErrorCode::bad_argument,
                    "no value of `" + symbol.name + "` in " + std::to_string(symbol.lo) + ".." +
                        std::to_string(symbol.hi) + " is a multiple of " + std::to_string(step.factor),
                    {}, "a factor of at least 1 and at most " + std::to_string(symbol.hi));
  Guard more;
  more.symbols.push_back({symbol.name, 0, INT64_MAX, step.factor});
  Applied out{k, {}};
  out.kernel.guard = Guard::both(k.guard, more);
  return out;
}

Result<Applied> apply(const ir::Kernel& k, const AssumeAlignment& step) {
  if (step.bytes < 1 || step.bytes > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(step.bytes)))
    return rejected(ErrorCode::bad_argument, std::to_string(step.bytes) + " bytes", {},
                    "a power of two from 1 to 4096");
  Guard more;
  more.alignment_bytes = step.bytes;
  Applied out{k, {}};
  out.kernel.guard = Guard::both(k.guard, more);
  return out;
}

}  // namespace loopwright::schedule
