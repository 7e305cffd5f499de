#include "src/lower/expand_unroll.h"

#include "src/ir/rewrite.h"
#include "src/lower/copies.h"

namespace loopwright::lower {
namespace {

using ir::Stmt;

/// Inner loops first. A loop whose copies would be too many statements stays as it is, but serial.
Stmt expand_loops(const Stmt& s, std::int64_t most_statements) {
  const Stmt inner = ir::map_children(s, [](const ir::Expr& e) { return e; },
                                      [&](const Stmt& child) { return expand_loops(child, most_statements); });
  const auto* l = ir::as<ir::Loop>(inner);
  if (l == nullptr || l->kind != ir::LoopKind::unroll) return inner;
  const auto extent = ir::as_int(l->extent);
  if (!extent || *extent * count_statements(l->body) > most_statements) return ir::loop(l->var, l->extent, l->body);
  std::vector<Stmt> copies;
  for (std::int64_t i = 0; i < *extent; ++i) {
    const Stmt copy = i == 0 ? l->body : ir::clone_bindings(l->body);
    copies.push_back(ir::substitute(copy, {{l->var, ir::int_imm(i)}}));
  }
  return ir::seq(std::move(copies));
}

}  // namespace

Result<ir::Kernel> expand_unroll(const ir::Kernel& kernel, const LowerOptions& options) {
  ir::Kernel out = kernel;
  out.body = expand_loops(kernel.body, options.max_statements / 4);
  return make_names_unique(out);
}

}  // namespace loopwright::lower
