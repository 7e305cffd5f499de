#include "src/ir/row_groups.h"

#include "src/ir/rewrite.h"

namespace loopwright::ir {
namespace {

bool is_variable(const Expr& e, const Var& v) {
  const auto* x = as<VarRef>(e);
  return x != nullptr && x->var == v;
}

std::optional<RowGroups> match_row_groups(const Stmt& s) {
  const auto* row = as<Loop>(s);
  const auto* each = row != nullptr ? as<Loop>(row->body) : nullptr;
  const auto* u = each != nullptr ? as<Update>(each->body) : nullptr;
  if (u == nullptr || u->monoid != Monoid::min || u->index.size() != 1 || !is_variable(u->index[0], row->var))
    return std::nullopt;
  const auto* choice = as<Select>(u->values[0]);
  const auto* behind = choice != nullptr ? as<Binary>(choice->condition) : nullptr;
  if (behind == nullptr || behind->op != BinaryOp::lt || !is_variable(behind->a, row->var))
    return std::nullopt;
  if (!is_variable(choice->a, each->var) || !same(choice->b, each->extent)) return std::nullopt;
  const auto* cast = as<Cast>(behind->b);
  const auto* load = as<Load>(cast != nullptr ? cast->a : behind->b);
  if (load == nullptr || !is_integer(load->buffer->dtype) || load->index.size() != 1 ||
      !is_variable(load->index[0], each->var))
    return std::nullopt;
  return RowGroups{u->buffers[0], load->buffer, row->extent, each->extent, s};
}

}  // namespace

std::vector<RowGroups> find_row_groups(const Stmt& body) {
  std::vector<RowGroups> out;
  walk(
      body,
      [&](const Stmt& s) {
        if (const auto found = match_row_groups(s)) out.push_back(*found);
      },
      [](const Expr&) {});
  return out;
}

}  // namespace loopwright::ir
