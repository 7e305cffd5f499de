#include "src/lower/place_buffers.h"

#include <algorithm>

#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::Stmt;

bool touches(const Stmt& s, const ir::Buffer& buffer) {
  const ir::Accesses a = ir::buffers_of(s);
  return std::count(a.read.begin(), a.read.end(), buffer) + std::count(a.written.begin(), a.written.end(), buffer) > 0;
}

/// The same statements with `buffer` allocated around as few of them as possible. Not inside a loop: what one
/// iteration leaves for the next would be lost.
Stmt narrow(const ir::Buffer& buffer, const Stmt& body) {
  if (const auto* a = ir::as<ir::Alloc>(body)) {
    bool in_shape = false;
    for (const auto* list : {&a->buffer->shape, &a->buffer->strides}) {
      for (const ir::Expr& e : *list) {
        ir::walk(e, [&](const ir::Expr& x) {
          const auto* l = ir::as<ir::Load>(x);
          in_shape = in_shape || (l != nullptr && l->buffer == buffer);
        });
      }
    }
    // Only past allocations of the same kind: a workspace must stay outside.
    if (!in_shape && a->buffer->memory == ir::Memory::global) return ir::alloc(a->buffer, narrow(buffer, a->body));
    return ir::alloc(buffer, body);
  }
  const auto* q = ir::as<ir::Seq>(body);
  if (q == nullptr) return ir::alloc(buffer, body);
  std::size_t first = 0;
  std::size_t last = q->items.size();
  while (first < last && !touches(q->items[first], buffer)) ++first;
  while (last > first && !touches(q->items[last - 1], buffer)) --last;
  if (first == last) return body;
  const auto at = [&](std::size_t i) { return q->items.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<Stmt> items(q->items.begin(), at(first));
  const Stmt inside = ir::seq(std::vector<Stmt>(at(first), at(last)));
  items.push_back(ir::as<ir::Alloc>(inside) != nullptr ? narrow(buffer, inside) : ir::alloc(buffer, inside));
  items.insert(items.end(), at(last), q->items.end());
  return ir::seq(std::move(items));
}

}  // namespace

Result<ir::Kernel> place_buffers(const ir::Kernel& kernel, const LowerOptions&) {
  ir::Kernel out = kernel;
  out.body = ir::rewrite(kernel.body, [](const ir::Expr& e) { return e; }, [](const Stmt& s) {
    const auto* a = ir::as<ir::Alloc>(s);
    if (a == nullptr || a->buffer->memory == ir::Memory::global) return s;
    const Stmt placed = narrow(a->buffer, a->body);
    const auto* same = ir::as<ir::Alloc>(placed);
    return same != nullptr && same->buffer == a->buffer && same->body == a->body ? s : placed;
  });
  return out;
}

}  // namespace loopwright::lower
