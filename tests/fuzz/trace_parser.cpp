// Any bytes as a trace: an error, or steps that print and read back; they replay or are rejected on a real kernel.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/schedule/trace.h"

namespace {

const loopwright::ir::Kernel& subject() {
  static const loopwright::ir::Kernel k = *loopwright::ir::parse_kernel(
      R"(kernel mm(a: f32[m, k] in, b: f32[k, n] in, bias: f32[n] in, y: f32[m, n] out)
  symbol k in 0..40
  symbol m in 0..40
  symbol n in 0..40
  level naive
  alloc acc: f32[m, n] global
  for z_0 in 0..m
    for z_1 in 0..n
      acc[z_0, z_1] = 0.0f32
  for i in 0..m
    for j in 0..n
      for r in 0..k
        update sum acc[i, j] by a[i, r]*b[r, j]
  for y_0 in 0..m
    for y_1 in 0..n
      y[y_0, y_1] = max(acc[y_0, y_1] + bias[y_1], 0.0f32)
)");
  return k;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace loopwright;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto steps = schedule::parse_trace(text);
  if (!steps.ok() || steps->size() > 40) return 0;
  const std::string once = schedule::print_trace(*steps);
  const auto again = schedule::parse_trace(once);
  if (!again.ok() || schedule::print_trace(*again) != once) std::abort();
  const auto k = schedule::replay(subject(), *steps);
  if (k.ok() && !ir::verify(*k).ok()) std::abort();
  return 0;
}
