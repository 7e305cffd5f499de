#include "src/codegen/cuda/regions.h"

#include <algorithm>
#include <utility>

#include "src/codegen/cuda/engine_loops.h"
#include "src/codegen/launch_walk.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

Error refuse(const ir::Kernel& kernel, std::string found, std::string works) {
  return Error{ErrorCode::compile_failed, "compiling kernel `" + kernel.name + "` for CUDA", std::move(found), "",
               std::move(works)};
}

std::size_t axis_of(LoopKind kind) {
  return kind == LoopKind::grid_x ? 0 : kind == LoopKind::grid_y ? 1 : 2;
}

class RegionPlanner : LaunchWalk {
 public:
  explicit RegionPlanner(const ir::Kernel& kernel) : LaunchWalk(kernel) {}

  Result<RegionPlan> plan() {
    LW_CHECK(walk());
    for (const ir::Buffer& b : workspaces_)
      if (b->memory != ir::Memory::global)
        return refuse(kernel_, "`" + b->name + "` outside the grids is not global memory", "global");
    return RegionPlan{std::move(regions_), std::move(workspaces_)};
  }

 private:
  bool begins_launch(const ir::Loop& l) const override { return ir::is_grid(l.kind) || l.kind == LoopKind::last_block; }
  bool is_always_workspace(const ir::Buffer& buffer) const override { return buffer->memory == ir::Memory::global; }

  Status add_launch(const Stmt& s, const Wrap& wrap) override {
    const auto& loop = std::get<ir::Loop>(s->v);
    if (loop.kind == LoopKind::last_block) return add_last(loop, wrap);
    if (!is_apart(s)) flush();
    Region region;
    region.body = wrap(collect_grid(s, region));
    regions_.push_back(std::move(region));
    return Unit{};
  }

  Status add_last(const ir::Loop& l, const Wrap& wrap) {
    const bool fits = pending_.empty() && !regions_.empty() && !regions_.back().last;
    if (!fits) return refuse(kernel_, "loop `" + l.var.hint + "` of the last block does not follow a grid", "a grid in front of it");
    Region& region = regions_.back();
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
    if (const auto* i = ir::as<ir::If>(s); i != nullptr && !ir::has_load(i->condition))
      return ir::if_then(i->condition, collect_grid(i->then, region));
    if (const auto* l = ir::as<ir::Let>(s); l != nullptr && !ir::has_load(l->value))
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

  /// What has a ring is a launch of one block, because its warps have roles.
  void flush() override {
    std::vector<Stmt> group;
    for (Stmt& s : std::exchange(pending_, {})) {
      if (loops_of(s, LoopKind::ring).empty()) {
        group.push_back(std::move(s));
        continue;
      }
      add_rest(std::exchange(group, {}));
      add_block(std::move(s));
    }
    add_rest(std::move(group));
  }

  /// What follows a grid is done by its last block; without one it is a launch of one block.
  void add_rest(std::vector<Stmt> items) {
    if (items.empty()) return;
    if (regions_.empty() || regions_.back().last || !regions_.back().has_grid()) return add_block(ir::seq(std::move(items)));
    regions_.back().last = LastBlock{ir::fresh_var("one"), ir::int_imm(1), ir::seq(std::move(items)), false};
  }

  void add_block(Stmt body) {
    Region region;
    region.body = std::move(body);
    regions_.push_back(std::move(region));
  }

  std::vector<Region> regions_;
};

}  // namespace

Result<RegionPlan> plan_regions(const ir::Kernel& kernel) { return RegionPlanner(kernel).plan(); }

}  // namespace loopwright::codegen
