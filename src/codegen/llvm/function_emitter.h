// The body of one launch as LLVM code. Expressions are in emit_expr.cpp, loads and stores in emit_memory.cpp,
// statements in emit_stmt.cpp.
//
// Inside a `vectorize` loop an expression is either the same for every lane, and then it is a scalar, or it is a vector
// with one element a lane. The loop's iterations are independent, so all lanes go through the body in step; conditions
// that differ between lanes become the mask under which memory is touched.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/codegen/llvm/machine.h"
#include "src/codegen/llvm/ops.h"
#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// Where a buffer is, and the metadata that says what it cannot overlap.
struct BufferPlace {
  llvm::Value* address = nullptr;
  llvm::MDNode* scope = nullptr;
  llvm::MDNode* apart_from = nullptr;
  bool is_streamed = false;           ///< stores of whole vectors go past the caches
  std::int64_t private_elements = 0;  ///< of an array on the stack: its elements may be touched at any time
};
using BufferPlaces = std::map<const ir::BufferInfo*, BufferPlace>;

class FunctionEmitter {
 public:
  /// Emits into `function`, a CpuEntry, whose entry block is empty but for what `places` and `symbols` needed.
  FunctionEmitter(const ir::Kernel& kernel, const CpuTarget& target, llvm::IRBuilder<>& builder, llvm::Value* callees,
                  llvm::Value* scratch, BufferPlaces places, BufferPlace scratch_place);
  void bind(const ir::Var& var, llvm::Value* value) { values_[var.id] = value; }
  Status emit(const ir::Stmt& s);
  llvm::Value* emit_index(const ir::Expr& e) { return eval(e); }
  /// Largest number of bytes of scratch in use at once.
  SizeExpr scratch_bytes() const { return scratch_peak_; }
  /// Some stores went past the caches: others see them after a fence.
  bool has_streamed() const { return has_streamed_; }

 private:
  using V = llvm::Value*;
  /// The vectorised loop being emitted.
  struct VectorLoop {
    ir::Var var;
    unsigned lanes = 0;
    V first = nullptr;  ///< value of `var` in lane 0
    V mask = nullptr;   ///< lanes that are on; null for all
    V any = nullptr;    ///< whether some lane is on; null when that is known
    std::map<std::uint32_t, ir::Expr> varying;  ///< Lets inside whose value differs between lanes
  };
  /// The expression is kept, so that no other one takes its address meanwhile.
  struct Known {
    ir::Expr expression;
    V value;
  };
  using Memo = std::unordered_map<const ir::ExprNode*, Known>;

  // emit_expr.cpp
  V eval(const ir::Expr& e);
  V eval_in_lane_0(const ir::Expr& e);
  V eval_node(const ir::Expr& e);
  V eval_var(const ir::VarRef& ref);
  V eval_select(const ir::Expr& condition, const ir::Expr& a, const ir::Expr& b);
  V eval_side(V condition, const ir::Expr& side);
  V eval_branches(V condition, const ir::Expr& a, const ir::Expr& b);
  V choose(V condition, V a, V b);
  bool touches_memory(const ir::Expr& e);
  bool is_varying(const ir::Expr& e);
  std::optional<std::int64_t> lane_step(const ir::Expr& e);
  void forget() { memo_.assign(1, {}); }

  // emit_memory.cpp
  ir::Expr linear_index(const ir::BufferInfo& buffer, const std::vector<ir::Expr>& index) const;
  V load(const ir::Load& l);
  V load_lanes(const ir::BufferInfo& buffer, const BufferPlace& place, V indices);
  V load_contiguous(const ir::BufferInfo& buffer, const BufferPlace& place, V first, bool backward);
  void store(const ir::Buffer& buffer, const std::vector<ir::Expr>& index, V value);
  void store_lanes(const ir::BufferInfo& buffer, const BufferPlace& place, V indices, V value);
  void store_streamed(V value, V address, llvm::Align align, const BufferPlace& place);
  V address_if_any(V address);
  bool is_private(const BufferPlace& place, V first, unsigned count) const;
  V element_address(const ir::BufferInfo& buffer, const BufferPlace& place, V index);
  const BufferPlace& place_of(const ir::Buffer& buffer) const;
  template <class Instruction>
  Instruction* annotate(Instruction* access, const BufferPlace& place);
  llvm::Align alignment(DType dtype) const;
  Status allocate(const ir::Alloc& a);
  Status allocate_scratch(const ir::Alloc& a);

  // emit_stmt.cpp
  Status emit_loop(const ir::Loop& l);
  Status emit_counted(const ir::Var& var, V extent, const ir::Stmt& body, bool full_unroll);
  Status emit_vector(const ir::Loop& l, std::int64_t extent);
  Status emit_if(const ir::If& i);
  Status emit_let(const ir::Let& l);
  void emit_update(const ir::Update& u);
  void emit_lane_reduction(const ir::Update& u);
  bool can_vectorize(const ir::Loop& l);
  bool can_vectorize_body(const ir::Stmt& s, const ir::Var& var);
  Status emit_masked(V condition, const ir::Stmt& body);
  void narrow_mask(V condition);
  Status emit_guarded(V condition, const ir::Stmt& body);
  llvm::BasicBlock* make_block(const char* name);

  const ir::Kernel& kernel_;
  llvm::IRBuilder<>& b_;
  ConvertEmitter convert_;
  MathEmitter math_;
  OpEmitter ops_;
  V scratch_;
  BufferPlaces places_;
  BufferPlace scratch_place_;
  bool has_streamed_ = false;
  ir::Expr scratch_used_;     ///< bytes, at this point of the nest
  SizeExpr scratch_peak_;
  V nowhere_ = nullptr;       ///< memory that is read when no lane is on
  std::unordered_map<std::uint32_t, V> values_;
  std::optional<VectorLoop> vector_;
  bool in_lane_0_ = false;
  std::vector<Memo> memo_;    ///< of the statement being emitted, a level for each branch entered
};

}  // namespace loopwright::codegen
