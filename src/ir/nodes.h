// The nodes of the loop-nest IR.
//
// Meaning. A kernel is ordinary sequential code over buffers: loops, stores, updates and conditions, executed in the
// order of the text. That is all of its meaning. Loop kinds, memories and other attributes say how it may be made fast;
// they never change a result. Each attribute carries an obligation instead, which the interpreter checks:
//   - iterations of a loop that is not `serial` or `unroll` do not touch what another iteration writes (a race), except
//     through buffers allocated inside the loop;
//   - no element is read before it is written; no index is outside its buffer's shape.
// Integers: i64 for every index; add, sub, mul wrap; floor_div and mod round toward minus infinity, div toward zero;
// dividing by zero gives 0; shifts by a negative count or by the width or more give 0 (shr of a negative number: -1).
// Floats: IEEE, round to nearest even; f16 and bf16 operations are computed in f32 and rounded once for each node;
// min and max return NaN when either side is NaN; a float cast to an integer truncates, saturates, and takes NaN to 0;
// a cast to bool is `!= 0`; an integer cast to a narrower one keeps the low bits. min and max order -0 below +0.
// `round` takes ties to even; `sign` of NaN is NaN, of a zero that zero; float floor_div is floor(a / b); float mod has
// the sign of b, fmod (of integers too) the sign of a; a negative integer power is 0 unless the base is 1 or -1.
// exp, log and the like are correct to the last places of the dtype, not bit for bit. Nothing is reassociated or contracted unless the kernel says so (Kernel::contract).
// Evaluation: `select` evaluates only the chosen side, `and_` and `or_` of bools stop at the first that decides; so an
// index that is out of bounds in the side not taken is legal. Everything else has no side effects and no order.
//
// Nodes are immutable and shared freely between threads. A variable is its number; `hint` is only for printing. A
// variable is bound at most once in a kernel and a buffer is allocated at most once: copies go through `clone_bindings`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::ir {

struct ExprNode;
struct StmtNode;
using Expr = std::shared_ptr<const ExprNode>;
using Stmt = std::shared_ptr<const StmtNode>;

// ---------------------------------------------------------------- variables and buffers

struct Var {
  std::uint32_t id = 0;
  std::string hint;
  bool operator==(const Var& other) const { return id == other.id; }
  bool operator<(const Var& other) const { return id < other.id; }
};
/// A variable with a number no other has in this process.
Var fresh_var(std::string hint);

/// Where a buffer lives, from the largest to the smallest. On a CPU `shared` is private memory of the core that runs an
/// iteration of the parallel loop (its scratch), `registers` a small array with constant indices after unrolling.
/// `cluster` and `fragment` exist on GPUs only.
enum class Memory : std::uint8_t { global, cluster, shared, registers, fragment };

/// An array. Identity is the pointer. `strides` (elements) is empty for the dense row-major layout.
struct BufferInfo {
  std::string name;  ///< unique in its kernel
  DType dtype = DType::f32;
  Memory memory = Memory::global;
  std::vector<Expr> shape;
  std::vector<Expr> strides;
};
using Buffer = std::shared_ptr<const BufferInfo>;

// ---------------------------------------------------------------- expressions

enum class UnaryOp : std::uint8_t {
  neg,
  abs,
  sign,
  logical_not,
  bit_not,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  cbrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  erf,
  sigmoid,
  floor,
  ceil,
  round,
  trunc,
  is_nan,
  is_inf,
  round_tf32,  // of f32: to 10 bits behind the point, ties to even; in no graph, see the step round_factors
};
enum class BinaryOp : std::uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  min,
  max,
  pow,
  atan2,
  fmod,
  and_,
  or_,
  xor_,
  shl,
  shr,  // bitwise on integers, logical on bool
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  // result bool
};
/// Words used in text, the same as the graph's op names: `add`, `floor_div`, `exp`, ...
std::string_view name(UnaryOp op);
std::string_view name(BinaryOp op);

struct IntImm {
  std::int64_t value;
};  // dtype: any integer or bool
struct FloatImm {
  double value;
};  // dtype: any float; value is exactly representable in it
struct VarRef {
  Var var;
};  // i64, or the dtype of the Let that binds it
struct Unary {
  UnaryOp op;
  Expr a;
};
struct Binary {
  BinaryOp op;
  Expr a, b;
};
struct Select {
  Expr condition, a, b;
};
struct Cast {
  Expr a;
};  // to ExprNode::dtype
struct Load {
  Buffer buffer;
  std::vector<Expr> index;
};

struct ExprNode {
  std::variant<IntImm, FloatImm, VarRef, Unary, Binary, Select, Cast, Load> v;
  DType dtype;
};

// Builders. They check dtypes (a mismatch is a Bug) and fold constants; nothing more, `simplify` does the rest.
Expr int_imm(std::int64_t value, DType dtype = DType::i64);
Expr float_imm(double value, DType dtype);
/// Zero, one, or any number in any dtype.
Expr constant(double value, DType dtype);
Expr var(const Var& v, DType dtype = DType::i64);
Expr unary(UnaryOp op, Expr a);
Expr binary(BinaryOp op, Expr a, Expr b);
Expr select(Expr condition, Expr a, Expr b);
Expr cast(Expr a, DType dtype);  // returns `a` when it has that dtype already
Expr load(Buffer buffer, std::vector<Expr> index);
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr floor_div(Expr a, Expr b);
Expr mod(Expr a, Expr b);
/// (a + b - 1) floor_div b.
Expr ceil_div(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
/// The value of an integer literal.
std::optional<std::int64_t> as_int(const Expr& e);
/// Same structure, same variable numbers, same buffers.
bool same(const Expr& a, const Expr& b);

// ---------------------------------------------------------------- monoids: how partial results combine

/// The state of a reduction may be a tuple; `arity` and `combine` are in monoid.h.
///   sum, product, min, max, any, all              (value)
///   argmin, argmax                                (value, index): ties to the smaller index; NaN wins, first NaN first
///   log_sum_exp                                   (largest, sum of exp(x - largest)): the online softmax
///   welford                                       (count, mean, sum of squared distances)
enum class Monoid : std::uint8_t { sum, product, min, max, any, all, argmin, argmax, log_sum_exp, welford };

// ---------------------------------------------------------------- statements

/// How the iterations of a loop are carried out. `serial` in order; `unroll` as copies; `vectorize` as lanes of one
/// instruction stream; `parallel` by the CPU's workers.
/// On a GPU: `grid_*` by the blocks of one launch, `cluster_x` by neighbouring blocks that see each other, `thread_*` by the threads of a block, where what follows the loop sees
/// what its iterations did. `across` is a reduction (ordered, in its meaning) over what different threads hold, one value
/// each, or a scan, where each may hold several. `last_block` follows a grid in the same launch: the block that is the last to finish carries it out.
/// `bulk`: a copy between global and shared memory that the copy engine carries out. `mma`: a product of two tiles, summed
/// into a fragment (ordered, in its meaning) by the tensor cores. `ring`: in order, while copies of later iterations are
/// under way; `bulk` loops inside fill the slots that `mma` loops, or threads, inside read. `async`: around a copy by the loops over
/// threads inside, from global to shared memory, whose threads go on without it (of one iteration, in a ring).
enum class LoopKind : std::uint8_t { serial, unroll, vectorize, parallel, grid_x, grid_y, grid_z, thread_x, thread_y, cluster_x, across, last_block, ring, bulk, mma, async };
/// True when iterations may be carried out in any order or at once.
bool is_unordered(LoopKind kind);
bool is_grid(LoopKind kind);
bool is_thread(LoopKind kind);
/// ring, bulk, mma or async: what only the emitter of such a region takes apart.
bool is_engine(LoopKind kind);

struct Loop {
  Var var;
  Expr extent;
  LoopKind kind;
  Stmt body;
};  // var in [0, extent)
struct Store {
  Buffer buffer;
  std::vector<Expr> index;
  Expr value;
};
/// state = combine(state, values), where the state is the element at `index` of each buffer.
struct Update {
  Monoid monoid;
  std::vector<Buffer> buffers;
  std::vector<Expr> index;
  std::vector<Expr> values;
};
struct If {
  Expr condition;
  Stmt then;
};
struct Let {
  Var var;
  Expr value;
  Stmt body;
};  // binds a value of any dtype once
struct Alloc {
  Buffer buffer;
  Stmt body;
};  // uninitialised on entry, gone on exit
struct Seq {
  std::vector<Stmt> items;
};  // in order; empty is "nothing"

struct StmtNode {
  std::variant<Loop, Store, Update, If, Let, Alloc, Seq> v;
};
// Builders. Ranks, dtypes of indices and values are checked (a mismatch is a Bug).
Stmt loop(Var v, Expr extent, Stmt body, LoopKind kind = LoopKind::serial);
Stmt store(Buffer buffer, std::vector<Expr> index, Expr value);
Stmt update(Monoid monoid, std::vector<Buffer> buffers, std::vector<Expr> index, std::vector<Expr> values);
Stmt if_then(Expr condition, Stmt then);
Stmt let(Var v, Expr value, Stmt body);
Stmt alloc(Buffer buffer, Stmt body);
/// Flattens nested sequences; a single item stands for itself.
Stmt seq(std::vector<Stmt> items);

/// Visitor from lambdas, without a default: a new node breaks the build at every place that must know it.
template <class... F>
struct on : F... {
  using F::operator()...;
};
template <class... F>
on(F...) -> on<F...>;

template <class T>
const T* as(const Expr& e) {
  return std::get_if<T>(&e->v);
}
template <class T>
const T* as(const Stmt& s) {
  return std::get_if<T>(&s->v);
}

}  // namespace loopwright::ir
