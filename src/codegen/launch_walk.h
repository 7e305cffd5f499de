// The way from a kernel's body to its launches, the same for every backend.
#pragma once

#include <functional>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// Goes down to the outermost loops that begin a launch. Statements between them collect in `pending_`; what surrounds a
/// statement (Let, If) goes inside with it; allocations around launches become workspaces.
class LaunchWalk {
 public:
  virtual ~LaunchWalk() = default;

 protected:
  /// Puts a statement back into the Lets and Ifs it was taken out of.
  using Wrap = std::function<ir::Stmt(ir::Stmt)>;

  explicit LaunchWalk(const ir::Kernel& kernel) : kernel_(kernel) {}
  /// compile_failed when a workspace's shape is not known before the launches.
  Status walk();
  /// Over symbols only, so that it can be evaluated before the launch and again inside.
  bool is_closed(const ir::Expr& e) const { return ir::to_size_expr(e, kernel_.symbols).has_value(); }

  /// By its kind; the loop's extent is closed.
  virtual bool begins_launch(const ir::Loop& loop) const = 0;
  /// Allocated outside the launches although none is made of a loop below.
  virtual bool is_always_workspace(const ir::Buffer& buffer) const = 0;
  /// `loop` begins a launch; everything in front of it is in `pending_` or was launched.
  virtual Status add_launch(const ir::Stmt& loop, const Wrap& wrap) = 0;
  /// Makes what is pending a launch; it may be nothing.
  virtual void flush() = 0;

  const ir::Kernel& kernel_;
  std::vector<ir::Stmt> pending_;
  std::vector<ir::Buffer> workspaces_;

 private:
  bool can_split(const ir::Stmt& s) const;
  Status split(const ir::Stmt& s, const Wrap& wrap);
};

}  // namespace loopwright::codegen
