#include "src/codegen/cuda/regions.h"

#include <algorithm>
#include <functional>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

bool has_load(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) { found = found || ir::as<ir::Load>(x) != nullptr; });
  return found;
}

/// Puts a statement back into the Lets and Ifs it was taken out of.
using Wrap = std::function<Stmt(Stmt)>;

Error refuse(const ir::Kernel& kernel, std::string found, std::string works) {
  return Error{ErrorCode::compile_failed, "compiling kernel `" + kernel.name + "` for CUDA", std::move(found), "",
               std::move(works)};
}

std::size_t axis_of(LoopKind kind) {
  return kind == LoopKind::grid_x ? 0 : kind == LoopKind::grid_y ? 1 : 2;
}

class RegionPlanner {
 public:
  explicit RegionPlanner(const ir::Kernel& kernel) : kernel_(kernel) {}

  Result<RegionPlan> plan() {
    LW_CHECK(split(kernel_.body, [](Stmt s) { return s; }));
    flush();
    return std::move(plan_);
  }

 private:
  bool is_closed(const Expr& e) const { return ir::to_size_expr(e, kernel_.symbols).has_value(); }

  bool begins_region(const ir::Loop& l) const {
    return (ir::is_grid(l.kind) || l.kind == LoopKind::last_block) && is_closed(l.extent);
  }

  bool can_split(const Stmt& s) const {
    return std::visit(ir::on{[&](const ir::Loop& l) { return begins_region(l); }, [&](const ir::Store&) { return false; },
                             [&](const ir::Update&) { return false; },
                             [&](const ir::If& i) { return !has_load(i.condition) && can_split(i.then); },
                             [&](const ir::Let& l) { return !has_load(l.value) && can_split(l.body); },
                             [&](const ir::Alloc& a) { return a.buffer->memory == ir::Memory::global || can_split(a.body); },
                             [&](const ir::Seq& q) {
                               return std::any_of(q.items.begin(), q.items.end(), [&](const Stmt& item) { return can_split(item); });
                             }},
                      s->v);
  }

  Status split(const Stmt& s, const Wrap& wrap) {
    if (!can_split(s)) {
      pending_.push_back(wrap(s));
      return Unit{};
    }
    if (const auto* q = ir::as<ir::Seq>(s)) {
      for (const Stmt& item : q->items) LW_CHECK(split(item, wrap));
      return Unit{};
    }
    if (const auto* a = ir::as<ir::Alloc>(s)) return add_workspace(*a, wrap);
    if (const auto* i = ir::as<ir::If>(s))
      return split(i->then, [wrap, c = i->condition](Stmt body) { return wrap(ir::if_then(c, std::move(body))); });
    if (const auto* l = ir::as<ir::Let>(s))
      return split(l->body, [wrap, l](Stmt body) { return wrap(ir::let(l->var, l->value, std::move(body))); });
    const auto* loop = ir::as<ir::Loop>(s);
    if (loop->kind == LoopKind::last_block) return add_last(*loop, wrap);
    if (!is_apart(s)) flush();
    Region region;
    region.body = wrap(collect_grid(s, region));
    plan_.regions.push_back(std::move(region));
    return Unit{};
  }

  Status add_workspace(const ir::Alloc& a, const Wrap& wrap) {
    for (const Expr& extent : a.buffer->shape)
      if (!is_closed(extent))
        return refuse(kernel_, "the shape of `" + a.buffer->name + "` is not a formula over the kernel's symbols",
                      "shapes over symbols and numbers");
    if (a.buffer->memory != ir::Memory::global)
      return refuse(kernel_, "`" + a.buffer->name + "` outside the grids is not global memory", "global");
    plan_.workspaces.push_back(a.buffer);
    return split(a.body, wrap);
  }

  Status add_last(const ir::Loop& l, const Wrap& wrap) {
    const bool fits = pending_.empty() && !plan_.regions.empty() && !plan_.regions.back().last;
    if (!fits) return refuse(kernel_, "loop `" + l.var.hint + "` of the last block does not follow a grid", "a grid in front of it");
    Region& region = plan_.regions.back();
    const bool per_column = region.grid[0] && ir::same(region.grid[0]->extent, l.extent) && (region.grid[1] || region.grid[2]);
    region.last = LastBlock{l.var, l.extent, wrap(l.body), per_column};
    return Unit{};
  }

  /// Takes the grid loops of a nest; what stands between them goes inside.
  Stmt collect_grid(const Stmt& s, Region& region) const {
    if (const auto* l = ir::as<ir::Loop>(s); l != nullptr && ir::is_grid(l->kind) && is_closed(l->extent)) {
      auto& place = region.grid[axis_of(l->kind)];
      if (!place) {
        place = GridLoop{l->var, l->extent};
        return collect_grid(l->body, region);
      }
    }
    if (const auto* i = ir::as<ir::If>(s); i != nullptr && !has_load(i->condition))
      return ir::if_then(i->condition, collect_grid(i->then, region));
    if (const auto* l = ir::as<ir::Let>(s); l != nullptr && !has_load(l->value))
      return ir::let(l->var, l->value, collect_grid(l->body, region));
    return s;
  }

  /// True when what is pending may as well happen behind the grid.
  bool is_apart(const Stmt& grid) const {
    const ir::Accesses after = ir::buffers_of(grid);
    const auto meet = [](const std::vector<ir::Buffer>& a, const std::vector<ir::Buffer>& b) {
      return std::any_of(a.begin(), a.end(), [&](const ir::Buffer& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
    };
    return std::all_of(pending_.begin(), pending_.end(), [&](const Stmt& s) {
      const ir::Accesses before = ir::buffers_of(s);
      return !meet(before.written, after.written) && !meet(before.written, after.read) && !meet(before.read, after.written);
    });
  }

  /// What follows a grid is done by its last block; without one it is a launch of one block.
  void flush() {
    if (pending_.empty()) return;
    if (!plan_.regions.empty() && !plan_.regions.back().last && plan_.regions.back().has_grid()) {
      plan_.regions.back().last = LastBlock{ir::fresh_var("one"), ir::int_imm(1), ir::seq(std::move(pending_)), false};
      pending_.clear();
      return;
    }
    Region region;
    region.body = ir::seq(std::move(pending_));
    plan_.regions.push_back(std::move(region));
    pending_.clear();
  }

  const ir::Kernel& kernel_;
  RegionPlan plan_;
  std::vector<Stmt> pending_;
};

}  // namespace

Result<RegionPlan> plan_regions(const ir::Kernel& kernel) { return RegionPlanner(kernel).plan(); }

}  // namespace loopwright::codegen
