#include "src/lower/check_resources.h"

#include <algorithm>

#include "src/ir/rewrite.h"
#include "src/lower/copies.h"

namespace loopwright::lower {
namespace {

using ir::Stmt;

/// Bytes of a buffer whose size is a number, else 0.
std::int64_t constant_bytes(const ir::BufferInfo& buffer) {
  std::int64_t bytes = size_bytes(buffer.dtype);
  for (const ir::Expr& extent : buffer.shape) {
    const std::int64_t n = ir::as_int(extent).value_or(0);
    if (__builtin_mul_overflow(bytes, n, &bytes)) return INT64_MAX;
  }
  return std::max<std::int64_t>(bytes, 0);
}

struct Use {
  std::int64_t register_bytes = 0;  ///< all of them: each has its own place on the stack
  std::int64_t scratch_bytes = 0;   ///< at most at once
};

Use measure(const Stmt& s) {
  Use use;
  std::int64_t own = 0;
  if (const auto* a = ir::as<ir::Alloc>(s)) {
    if (a->buffer->memory == ir::Memory::registers) use.register_bytes = constant_bytes(*a->buffer);
    if (a->buffer->memory == ir::Memory::shared) own = constant_bytes(*a->buffer);
  }
  ir::map_children(s, [](const ir::Expr& e) { return e; }, [&](const Stmt& child) {
    const Use below = measure(child);
    if (__builtin_add_overflow(use.register_bytes, below.register_bytes, &use.register_bytes)) use.register_bytes = INT64_MAX;
    use.scratch_bytes = std::max(use.scratch_bytes, below.scratch_bytes);
    return child;
  });
  if (__builtin_add_overflow(use.scratch_bytes, own, &use.scratch_bytes)) use.scratch_bytes = INT64_MAX;
  return use;
}

Error exceed(const ir::Kernel& kernel, const char* what, std::int64_t found, std::int64_t limit) {
  return Error{ErrorCode::resource_exceeded, "lowering kernel `" + kernel.name + "`",
               std::string(what) + ": " + std::to_string(found), "", "at most " + std::to_string(limit)};
}

}  // namespace

Result<ir::Kernel> check_resources(const ir::Kernel& kernel, const LowerOptions& options) {
  const std::int64_t statements = count_statements(kernel.body);
  if (statements > options.max_statements) return exceed(kernel, "statements", statements, options.max_statements);
  // What a GPU's threads hold is spread over them, and the emitter knows its shared memory.
  if (options.target.kind == TargetKind::cuda) return kernel;
  const Use use = measure(kernel.body);
  if (use.register_bytes > options.max_register_bytes) {
    return exceed(kernel, "bytes of register buffers", use.register_bytes, options.max_register_bytes);
  }
  if (use.scratch_bytes > options.max_scratch_bytes) {
    return exceed(kernel, "bytes of scratch for each worker", use.scratch_bytes, options.max_scratch_bytes);
  }
  return kernel;
}

}  // namespace loopwright::lower
