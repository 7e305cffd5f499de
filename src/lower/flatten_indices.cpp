#include "src/lower/flatten_indices.h"

#include <algorithm>

#include "src/ir/engine.h"
#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::Expr;
using ir::Stmt;

Expr times(const Expr& a, const Expr& b) {
  if (ir::as_int(a) == 1) return b;
  return ir::as_int(b) == 1 ? a : a * b;
}

/// Elements from one index of each dimension to the next.
std::vector<Expr> strides_of(const ir::BufferInfo& buffer) {
  if (!buffer.strides.empty()) return buffer.strides;
  std::vector<Expr> strides(buffer.shape.size());
  Expr stride = ir::int_imm(1);
  for (std::size_t d = buffer.shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = times(buffer.shape[d], stride);
  }
  return strides;
}

/// Elements from the first to the last.
Expr span_of(const ir::BufferInfo& buffer) {
  if (buffer.strides.empty()) {
    Expr count = ir::int_imm(1);
    for (const Expr& extent : buffer.shape) count = times(count, extent);
    return count;
  }
  Expr count = ir::int_imm(1);
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    count = count + times(ir::max(buffer.shape[d] - ir::int_imm(1), ir::int_imm(0)), buffer.strides[d]);
  }
  return count;
}

std::vector<Expr> flatten(const ir::BufferInfo& buffer, const std::vector<Expr>& index) {
  const std::vector<Expr> strides = strides_of(buffer);
  Expr sum = ir::int_imm(0);
  for (std::size_t d = 0; d < index.size(); ++d) {
    const Expr term = times(index[d], strides[d]);
    sum = ir::as_int(sum) == 0 ? term : sum + term;
  }
  return {sum};
}

}  // namespace

Result<ir::Kernel> flatten_indices(const ir::Kernel& kernel, const LowerOptions&) {
  std::map<ir::Buffer, ir::Buffer> flat;
  const std::set<ir::Buffer> boxed = ir::find_boxed(kernel.body);
  ir::walk(kernel.body, [&](const Stmt& s) {
    const auto* a = ir::as<ir::Alloc>(s);
    if (a == nullptr || boxed.contains(a->buffer) || (a->buffer->shape.size() == 1 && a->buffer->strides.empty())) return;
    ir::BufferInfo info = *a->buffer;
    info.shape = {span_of(info)};
    info.strides.clear();
    flat[a->buffer] = std::make_shared<const ir::BufferInfo>(std::move(info));
  }, [](const Expr&) {});
  const auto flat_expr = [&](const Expr& e) {
    const auto* l = ir::as<ir::Load>(e);
    if (l == nullptr || !flat.contains(l->buffer)) return e;
    return ir::load(flat.at(l->buffer), flatten(*l->buffer, l->index));
  };
  const auto flat_stmt = [&](const Stmt& s) {
    if (const auto* x = ir::as<ir::Store>(s); x != nullptr && flat.contains(x->buffer)) {
      return ir::store(flat.at(x->buffer), flatten(*x->buffer, x->index), x->value);
    }
    if (const auto* a = ir::as<ir::Alloc>(s); a != nullptr && flat.contains(a->buffer)) {
      return ir::alloc(flat.at(a->buffer), a->body);
    }
    const auto* u = ir::as<ir::Update>(s);
    if (u == nullptr) return s;
    if (std::none_of(u->buffers.begin(), u->buffers.end(), [&](const ir::Buffer& b) { return flat.contains(b); })) return s;
    // Buffers of one update have one shape; a parameter keeps its rank, and then all of them do.
    std::vector<ir::Buffer> buffers;
    for (const ir::Buffer& b : u->buffers) buffers.push_back(flat.contains(b) ? flat.at(b) : b);
    return ir::update(u->monoid, std::move(buffers), flatten(*u->buffers[0], u->index), u->values);
  };
  ir::Kernel out = kernel;
  out.body = ir::rewrite(kernel.body, flat_expr, flat_stmt);
  return out;
}

}  // namespace loopwright::lower
