// The body of one launch as CUDA C++ text. Expressions are in emit_expr.cpp, loads and stores in emit_memory.cpp,
// statements in emit_stmt.cpp, combinations over threads in emit_across.cpp and emit_scan.cpp.
//
// All threads of a block go through the statements outside the thread loops: what is in registers each of them computes
// for itself, what others can see thread 0 alone writes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "loopwright/artifact.h"
#include "src/codegen/cuda/barriers.h"
#include "src/codegen/cuda/ring_plan.h"
#include "src/codegen/cuda/spread.h"
#include "src/ir/engine.h"
#include "src/ir/kernel.h"
#include "src/ir/monoid.h"
#include "src/ir/simplify.h"

namespace loopwright::codegen {

/// What all bodies of one launch share.
struct LaunchContext {
  const ir::Kernel& kernel;
  BlockShape block;
  std::set<ir::Buffer> written;       ///< global buffers that this launch writes
  std::set<ir::Buffer> exchanged;     ///< those that one block writes and another reads in this launch
  std::map<ir::Buffer, std::string> pointers;  ///< names of global buffers
  std::map<ir::Buffer, std::string> words;     ///< of buffers of which each block stores one element, beside a flag (slots.h)
  const std::set<const ir::ExprNode*>& rough;  ///< values of which a few bits are enough (rough.h)
  std::int64_t shared_bytes = 0;      ///< used so far
  std::int64_t words_ahead = 0;       ///< most registers that a thread loads before it uses the first of them
  std::int64_t words_summed = 0;      ///< most registers of a thread in one array that is combined into
  std::int64_t words_held = 0;        ///< most registers of a thread in fragments of its warp
  bool holds_next = false;            ///< the next grid may come, and has not been let in so far
  bool meets_cluster = false;         ///< blocks of a cluster have waited for each other, for the first time at the entry
  std::int64_t consumers = 0;         ///< warpgroups of a region with a ring, in front of the producer's; else 0
  bool settles = false;               ///< consumers do arithmetic on sums between their products
  std::vector<TensorMap> maps;        ///< of this launch, without what a text does not need: see use_map
  std::vector<ir::Buffer> map_sources;
};

/// Whether a launch needs roles.
bool has_ring(const ir::Stmt& s);
/// Whether threads read what a copy engine fills.
bool has_row_ring(const ir::Stmt& s);
/// Whether threads copy without waiting.
bool has_async_ring(const ir::Stmt& s);
/// Elements in 128 bytes: the most columns that the copy engine takes at once, and that lie side by side.
inline std::int64_t block_columns(DType t) { return 128 / size_bytes(t); }

class BodyEmitter {
 public:
  explicit BodyEmitter(LaunchContext& launch);
  /// A variable that the launch knows: symbols, blocks.
  void bind(const ir::Var& v, const std::string& name, const ir::Expr& extent);
  void bind_symbol(const ir::SymbolParam& s, const std::string& name);
  void assume(const ir::Expr& condition) { facts_.assume(condition); }
  Status emit(const ir::Stmt& body);
  std::string take() { return std::move(out_); }

 private:
  /// Text of a value. An i64 whose values certainly fit is an `int` (narrow).
  struct Value {
    std::string text;
    bool narrow = false;
  };
  /// A local array: elements of less than four bytes lie in words of four.
  struct Array {
    std::string name;
    Spread spread;
    std::int64_t per_word = 1;
  };
  /// Words of a wide load: element i is in word i / per_word.
  struct WideLoad {
    std::vector<std::string> words;
    std::int64_t per_word = 1;
    bool as_bits = false;  ///< words are unsigned, elements their bits
  };
  /// Vectors of `width` elements trade places within their row by the number of the row's group, so that lanes that read
  /// down a column find different banks.
  struct Swizzle {
    std::int64_t group = 1;  ///< elements of the rows that one wide access will hold a column of
    std::int64_t vectors = 1, width = 1;  ///< of a row, powers of two
  };
  using Memo = std::unordered_map<const ir::ExprNode*, Value>;

  // emit_expr.cpp
  Value eval(const ir::Expr& e);
  std::string text(const ir::Expr& e) { return wide(eval(e), e->dtype); }
  static std::string wide(const Value& v, DType dtype);
  /// An index: `int` where its range allows, else `long long`.
  std::string index(const ir::Expr& e) { return eval(e).text; }
  Value eval_node(const ir::Expr& e);
  Value eval_index_op(const ir::Expr& e, const ir::Binary& x);
  Value eval_binary(const ir::Expr& e, const ir::Binary& x);
  std::string divide_lanes(const std::string& a, const ir::Expr& divisor, bool rough);
  Value eval_select(const ir::Expr& e, const ir::Expr& condition, const ir::Expr& a, const ir::Expr& b);
  Value eval_cast(const ir::Expr& e, const ir::Expr& a);
  Value eval_load(const ir::Expr& e, const ir::Load& l);
  bool fits_int(const ir::Expr& e) const;
  bool touches_memory(const ir::Expr& e) const;
  bool depends_on_lane(const ir::Expr& e);
  /// Begins a statement: counts how often each part is used.
  void begin(const std::vector<ir::Expr>& parts);
  std::string name_value(const std::string& type, const std::string& value);
  std::string fresh(const std::string& hint);

  // emit_memory.cpp
  ir::Expr linear_index(const ir::BufferInfo& buffer, const std::vector<ir::Expr>& index) const;
  std::string load_element(const ir::Buffer& buffer, const ir::Expr& linear);
  /// For a 16-bit element in a word: the word and its half.
  std::optional<std::pair<std::string, int>> find_half(const ir::Expr& e);
  std::string element_of(const WideLoad& load, DType dtype, std::int64_t i) const;
  void store_element(const ir::Buffer& buffer, const ir::Expr& linear, const std::string& value);
  bool is_streamed(const ir::Buffer& buffer) const;
  std::string loader_of(const ir::Buffer& buffer) const;
  std::string place_of(const ir::Buffer& buffer, const ir::Expr& linear);
  /// Elements that one access may take at lane 0 of `lanes`; 1 for none.
  std::int64_t access_width(const ir::Buffer& buffer, const ir::Expr& base, std::int64_t lanes) const;
  std::int64_t alignment(const ir::Buffer& buffer) const;
  /// The index in lane 0 when lanes are neighbours.
  std::optional<ir::Expr> lane_base(const ir::Expr& linear);
  /// The index in lane 0, and what each lane adds: not 0.
  struct LaneSteps {
    ir::Expr base;
    std::int64_t step = 1;
  };
  std::optional<LaneSteps> lane_steps(const ir::Expr& linear);
  bool load_apart(const ir::Expr& e, const ir::Load& l, const std::string& guard);
  /// Under the condition `guard` when it is not empty; `constant_only`: of memory that this launch does not write.
  void load_wide(const std::vector<ir::Expr>& parts, std::string guard = {}, bool constant_only = false);
  bool store_wide(const ir::Store& s);
  std::vector<std::string> choose_halves(const ir::Expr& value, std::int64_t lanes);
  bool rounds_pairs(const ir::Expr& value) const;
  std::vector<std::string> pack_lanes(const ir::Expr& value, std::int64_t lanes);
  Status allocate(const ir::Alloc& a);
  Result<Spread> find_spread(const ir::Alloc& a) const;
  std::optional<Swizzle> find_swizzle(const ir::Alloc& a, std::int64_t count) const;
  std::string local_index(const ir::Buffer& buffer, const ir::Expr& linear, ir::Expr* local);

  // emit_stmt.cpp
  Status emit_one(const ir::Stmt& s);
  Status emit_statement(const ir::Stmt& s);
  Status emit_loop(const ir::Loop& l);
  Status emit_thread_loop(const ir::Loop& l);
  void load_ahead(const std::vector<ir::Stmt>& items, std::size_t first);
  Status emit_lanes(const ir::Loop& l);
  Status emit_lanes_of(const ir::Stmt& s);
  Status emit_lane_by_lane(const ir::Stmt& s);
  Status emit_let(const ir::Let& l);
  Status emit_if(const ir::If& i);
  void store_once(const ir::Buffer& buffer, const ir::Expr& linear, const std::string& value);
  void emit_store(const ir::Store& s);
  void emit_update(const ir::Update& u);
  void barrier();
  /// In front of the first statement in which threads meet, and so behind most loads.
  void let_next_begin();
  /// Inside a loop of that axis of threads.
  bool is_in_axis(int axis) const;
  std::string thread_index(int axis) const;
  void line(const std::string& text) { out_ += std::string(static_cast<std::size_t>(depth_) * 2, ' ') + text + "\n"; }
  template <class Body>
  Status block(const std::string& head, const Body& body);
  Error refuse(std::string found, std::string works) const;
  /// The condition under which a thread is the one that does what all would do alike; empty for all of them.
  std::string only_thread(const ir::Buffer& buffer) const;

  // emit_across.cpp
  Status emit_across(const ir::Loop& l);
  void emit_exchanges(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values, std::int64_t ways);
  static std::string shuffle_text(const std::string& name, DType t, const std::string& mask, const std::string& value, const std::string& which);
  std::string lane_mask(std::int64_t ways);
  bool alternates() const;
  std::string allocate_slots(DType t, std::int64_t count);
  std::vector<std::string> publish_in_cluster(const std::vector<DType>& dtypes, const std::vector<std::string>& values);
  void emit_cluster_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values);
  void cluster_barrier();
  void enter_cluster();
  void combine_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values,
                     const std::vector<std::string>& slots, std::int64_t count);
  void emit_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values, std::int64_t warps);
  void combine_values(ir::Monoid monoid, const std::vector<DType>& dtypes, std::vector<std::string>& into, const std::vector<std::string>& with);

  // emit_scan.cpp
  struct ScanShape {
    int axis = 0;
    std::int64_t threads = 1, copies = 1;
  };
  Status emit_scan(const ir::Loop& l, const ir::Combination& c);
  std::string combined(ir::Monoid monoid, DType t, const std::string& a, const std::string& b);
  std::string scan_group(ir::Monoid monoid, DType t, std::string& value, std::int64_t lanes, const std::string& mask, const std::string& lane);
  std::vector<std::string> scan_lanes(ir::Monoid monoid, DType t, std::vector<std::string> values, const ScanShape& shape, std::string& state);
  std::vector<std::string> scan_slots(ir::Monoid monoid, DType t, const std::vector<std::string>& values, const ScanShape& shape, std::string& state);

  // emit_ring.cpp: copy engine and tensor cores
  struct Fragment {
    std::string name;
    std::int64_t tiles = 1, columns = 0;  ///< of 64 rows in one warpgroup
    std::int64_t row_step = 0, column_step = 1;
    std::int64_t groups = 1;                      ///< warpgroups that share it
    /// Tiles in front of those that the warpgroup with this number holds.
    std::int64_t tiles_before(std::int64_t group) const { return groups > 1 ? group * tiles : 0; }
  };
  struct RingState {
    ir::Var loop, slot;
    RingPlan plan;
  };
  Status find_guides(const ir::Stmt& body);
  /// Whether the statement computes nothing but numbers that say whether and where the ring's copies are: all roles do.
  bool guides_ring(const ir::Stmt& s) const;
  Status emit_roles(const ir::Stmt& body);
  Status emit_consumers(const ir::Stmt& body);
  Status emit_turns(const ir::Loop& l);
  Status emit_ring(const ir::Loop& l);
  Status emit_bulk(const ir::Loop& l);
  Status emit_matrix_product(const ir::Loop& l);
  Status emit_ring_ops(const std::vector<RingOp>& ops, const std::vector<ir::Stmt>& copies, const ir::Stmt& products);
  Status allocate_fragment(const ir::Alloc& a);
  std::optional<ir::MatrixProduct> find_layout(const ir::Alloc& a) const;
  bool begins_sum(const ir::Stmt& s);
  void end_products();
  Status place_rings(const ir::Stmt& body);
  std::string fragment_element(const ir::Buffer& buffer, const ir::Expr& linear);
  int use_map(const ir::BulkCopy& copy);

  // emit_row_ring.cpp: rows that the copy engine fills ahead of the threads
  struct RowRing {
    RingPlan plan;
    std::string full, empty;  ///< addresses of the barriers
    std::string round, end;   ///< the iteration, and how many there are
    std::string filled;       ///< the iteration whose slot is being filled
    ir::Var loop;
    ir::Expr extent;
    ir::Stmt fill;                            ///< what is around the copies, and they
    const ir::StmtNode* waits = nullptr;      ///< the slot is read behind this
    const ir::StmtNode* last_read = nullptr;  ///< and nowhere behind this
    const ir::StmtNode* refills = nullptr;    ///< all threads have met since, where they do
    std::size_t copied = 0;
  };
  Status emit_row_ring(const ir::Loop& l);
  Status plan_rows(const ir::Loop& l);
  Status begin_rows();
  Status fill_slot(const std::string& iteration);
  Status emit_row_copy(const ir::Loop& l);
  /// What the ring has to do in front of the statement, and behind it.
  void wait_for_row(const ir::Stmt& s);
  Status leave_row(const ir::Stmt& s);

  // emit_async.cpp: copies that threads do not wait for
  Status emit_async_ring(const ir::Loop& l);
  Status emit_async(const ir::Loop& l);
  Status emit_async_copy(const ir::Store& s);

  // emit_warp.cpp: products of one warp, operands and sums in its registers
  struct WarpPlace {
    std::int64_t lane = 0, element = 0;  ///< of those that the lane holds
  };
  struct WarpFragment {
    enum class Side : std::uint8_t { sums, left, right };
    std::string name;
    Side side = Side::sums;
    std::int64_t rows = 0, columns = 0;  ///< of the right operand: columns of the product, summands
    bool lies = true;                    ///< a row's elements are neighbours, not a column's
    std::int64_t slab = 0;               ///< summands of one nest
    WarpPlace place(std::int64_t position) const;
  };
  std::optional<WarpFragment> find_warp_layout(const ir::Alloc& a) const;
  Status allocate_warp_fragment(const ir::Alloc& a);
  std::optional<std::int64_t> warp_element(const ir::Buffer& buffer, const ir::Expr& linear);
  std::optional<std::pair<std::string, int>> warp_half(const ir::Buffer& buffer, const ir::Expr& linear);
  bool store_warp_words(const ir::Store& s, const ir::Expr& linear);
  std::vector<std::string> copy_words(const ir::Expr& value, std::int64_t lanes);
  Status emit_warp_product(const ir::Loop& l);

  // emit_group_product.cpp
  /// An operand that lanes load as they multiply: its elements, in the variables of the nest that fills it.
  struct GroupOperand {
    ir::Var row, summand;
    std::int64_t summands = 0;
    ir::Expr value;
  };
  bool is_group_operand(const ir::Alloc& a) const;
  bool defines_group_operand(const ir::Loop& outermost);
  std::vector<std::array<std::string, 2>> load_group_words(const GroupOperand& o, const ir::Expr& row, const ir::Expr& quarter, std::int64_t step);
  Status emit_group_product(const ir::MatrixProduct& p);

  // emit_outgoing.cpp
  Status allocate_outgoing(const ir::Alloc& a);
  Status emit_outgoing(const ir::BulkCopy& c);
  Status send_tile(const ir::BulkCopy& c);
  Status write_rows(const ir::BulkCopy& c);
  std::string place_in_blocks(const ir::Buffer& buffer, const ir::Expr& linear);
  Result<std::size_t> emit_matrices(const std::vector<ir::Stmt>& items, std::size_t first);

  /// `bystander`: a consumer during another one's turn.
  enum class Role : std::uint8_t { all, producer, consumer, bystander };
  /// Roles that do nothing but go through the ring.
  bool goes_along() const { return role_ == Role::producer || role_ == Role::bystander; }
  bool in_ring_ = false;

  LaunchContext& launch_;
  Role role_ = Role::all;
  std::vector<ir::Expr> conditions_;                 ///< around the statement
  std::map<ir::Buffer, Fragment> fragments_;
  std::map<ir::Buffer, WarpFragment> warp_fragments_;
  std::map<ir::Buffer, std::optional<GroupOperand>> group_operands_;  ///< empty until the nest that fills it
  std::map<ir::Buffer, ir::BulkCopy> ring_copies_;   ///< what fills a ring
  std::map<ir::Buffer, std::int64_t> ring_offsets_;  ///< of the rings in shared memory
  std::optional<RingState> ring_;
  std::optional<RowRing> row_ring_;
  bool in_async_ = false;                            ///< stores are copies that threads do not wait for
  std::set<ir::Buffer> guides_;                      ///< numbers that every thread holds and the way to the ring depends on
  Pace pace_ = Pace::overlapped;                     ///< of the ring
  std::map<ir::Buffer, std::set<std::int64_t>> begun_;    ///< tiles of fragments that are zero: their next product begins the sum
  std::set<ir::Buffer> multiplying_;                 ///< fragments whose products are under way
  std::int64_t ring_barriers_ = 0;                   ///< their offset
  std::map<ir::Buffer, ir::BulkCopy> outgoing_;      ///< tiles that the engine takes away
  std::int64_t outgoing_offset_ = 0;                 ///< in shared memory: one place for all of them, one after the other
  std::int64_t outgoing_bytes_ = 0;                  ///< of a warpgroup's share
  bool has_outgoing_ = false;                        ///< one of them is in use
  bool outgoing_in_ring_ = false;                    ///< that place is the ring's, which is over by then
  ir::Facts facts_;
  std::map<ir::Var, std::string> names_;
  std::map<ir::Var, bool> narrow_;
  std::map<ir::Var, ir::Expr> lets_;          ///< integer Lets that read no memory, for the analysis of indices
  std::map<ir::Var, ThreadLoop> threads_;     ///< thread loops around, and the loop of a combination
  std::map<ir::Buffer, Array> arrays_;
  std::map<ir::Buffer, std::map<ir::Var, ThreadLoop>> threads_at_alloc_;
  std::map<ir::Buffer, std::string> shared_;
  std::map<ir::Buffer, Swizzle> swizzles_;
  std::set<const ir::StmtNode*> barriers_;
  std::optional<Error> failure_;

  struct Lanes {
    ir::Var var;
    std::int64_t count = 1;
    std::int64_t now = 0;
    std::map<const ir::ExprNode*, WideLoad> loads;
    std::map<ir::Var, std::vector<std::string>> values;  ///< of Lets inside, one a lane
    std::map<ir::Var, std::vector<std::string>> halves;  ///< words of two lanes each, of those that round to 16 bits
  };
  std::optional<Lanes> lanes_;
  std::map<const ir::ExprNode*, WideLoad> ahead_;  ///< loads made in front of the statements that use them
  std::vector<ir::Expr> ahead_kept_;
  std::unordered_map<const ir::ExprNode*, bool> varies_;
  std::unordered_map<const ir::ExprNode*, int> uses_;
  struct Divisor {
    std::string scale, value, reciprocal;
  };
  std::unordered_map<const ir::ExprNode*, Divisor> divisors_;  ///< of the lanes, while they have one
  std::vector<Memo> memo_{1};
  std::vector<Memo> lane_memo_{1};
  std::vector<ir::Expr> kept_;  ///< so that no other expression takes an address in a memo
  std::string out_;
  int depth_ = 1;
  int number_ = 0;
  int serial_loops_ = 0;  ///< around, outside the thread loops
};

template <class Body>
Status BodyEmitter::block(const std::string& head, const Body& body) {
  line(head + "{");
  ++depth_;
  const ir::Facts outer = facts_;
  const Status status = body();
  facts_ = outer;
  --depth_;
  line("}");
  return status;
}

}  // namespace loopwright::codegen
