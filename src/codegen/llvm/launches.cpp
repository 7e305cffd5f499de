#include "src/codegen/llvm/launches.h"

#include "src/codegen/launch_walk.h"

namespace loopwright::codegen {
namespace {

class Planner : LaunchWalk {
 public:
  explicit Planner(const ir::Kernel& kernel) : LaunchWalk(kernel) {}

  Result<LaunchPlan> plan() {
    LW_CHECK(walk());
    return LaunchPlan{std::move(launches_), std::move(workspaces_)};
  }

 private:
  bool begins_launch(const ir::Loop& loop) const override { return loop.kind == ir::LoopKind::parallel; }
  bool is_always_workspace(const ir::Buffer&) const override { return false; }

  Status add_launch(const ir::Stmt& s, const Wrap& wrap) override {
    flush();
    const auto& loop = std::get<ir::Loop>(s->v);
    launches_.push_back({loop.var, loop.extent, wrap(loop.body)});
    return Unit{};
  }

  /// Everything serial since the last parallel loop is one launch.
  void flush() override {
    if (pending_.empty()) return;
    launches_.push_back({std::nullopt, ir::int_imm(1), ir::seq(std::move(pending_))});
    pending_.clear();
  }

  std::vector<LaunchBody> launches_;
};

}  // namespace

Result<LaunchPlan> plan_launches(const ir::Kernel& kernel) { return Planner(kernel).plan(); }

}  // namespace loopwright::codegen
