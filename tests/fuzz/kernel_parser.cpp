// Any bytes as a kernel: an error, or a kernel whose text reads back as itself. One that verifies still does so after
// simplification, and a small one runs.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/ir/interpret.h"
#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"

namespace {

using namespace loopwright;

constexpr std::int64_t kMaxElements = 256;
constexpr std::uint64_t kMaxSteps = 2000;

/// Zero-filled arguments; empty when a shape is not a small constant or an array is a view.
std::optional<std::map<std::string, ir::Array>> small_arguments(const ir::Kernel& k) {
  std::map<std::string, ir::Array> out;
  for (const ir::Param& p : k.params) {
    std::vector<std::int64_t> shape;
    std::int64_t elements = 1;
    for (const ir::Expr& e : p.buffer->shape) {
      const auto n = ir::as_int(e);
      if (!n || *n < 0 || *n > kMaxElements || (elements *= *n) > kMaxElements) return std::nullopt;
      shape.push_back(*n);
    }
    if (!p.buffer->strides.empty()) return std::nullopt;
    out.emplace(p.buffer->name, ir::Array::dense(p.buffer->dtype, shape));
  }
  return out;
}

/// Every allocation is a small constant too.
bool allocates_little(const ir::Stmt& s) {
  if (const auto* a = ir::as<ir::Alloc>(s)) {
    std::int64_t elements = 1;
    for (const ir::Expr& e : a->buffer->shape) {
      const auto n = ir::as_int(e);
      if (!n || *n < 0 || *n > kMaxElements || (elements *= *n) > kMaxElements) return false;
    }
  }
  bool all = true;
  ir::map_children(
      s, [](const ir::Expr& e) { return e; },
      [&](const ir::Stmt& child) {
        all = all && allocates_little(child);
        return child;
      });
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto k = ir::parse_kernel(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!k.ok()) return 0;
  const std::string once = ir::print(*k);
  const auto again = ir::parse_kernel(once);
  if (!again.ok() || ir::print(*again) != once) std::abort();
  if (!ir::verify(*k).ok()) return 0;
  if (!ir::verify(ir::simplify(*k)).ok()) std::abort();
  auto arguments = small_arguments(*k);
  if (!arguments || !k->symbols.empty() || !allocates_little(k->body)) return 0;
  ir::InterpretOptions options;
  options.max_steps = kMaxSteps;
  (void)ir::interpret(*k, {}, *arguments, options).ok();
  return 0;
}
