// What the author of a schedule sees: a kernel as nests of named loops, steps that change how it runs and never what it
// computes, and picks that the tuner chooses.
//
// A template is an ordinary function `void f(Schedule&, Space&)`, run once for each candidate. The first step that is
// rejected or requirement that fails stops it: later calls do nothing and return empty handles, so the code stays
// straight. The list of applied steps is the trace; it prints, parses and replays.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"
#include "loopwright/target.h"

namespace loopwright {

namespace ir {
struct Kernel;
}

/// A loop by name. Names are unique in a kernel; steps that make loops derive new ones (`i` → `i_o`, `i_i`).
struct LoopId {
  std::string name;
  bool operator==(const LoopId&) const = default;
};

/// What becomes of the last, partial tile of a split.
enum class Tail : std::uint8_t {
  guard,  ///< any extent; an If keeps the last tile inside. Lowering separates full tiles from the guarded one.
  exact,  ///< the factor divides the extent: by arithmetic, or because the variant assumes it (`assume_multiple`);
          ///< not_divisible otherwise. No guard at all.
};

/// Where a staged or local buffer lives. On a CPU `shared` is private memory of the worker, `registers` a small array
/// that is indexed by constants once its loops are unrolled or vectorized, `global` is workspace. On a GPU `shared` is
/// memory of the block; `registers` outside the thread loops are spread over the threads by the loops that index them,
/// and what no thread loop indexes every thread holds. `fragment`: sums of tensor cores, and operands of a single warp's
/// products (see tensorize), up to 65536 elements of a block.
enum class Place : std::uint8_t { global, shared, registers, fragment };

/// What of a GPU carries out a loop. Blocks of a grid run independently; threads of a block see what a thread loop did
/// once it is over. `across`: the loop combines one value of each thread (a scan: or several). `last_block`: a loop behind a grid, carried out
/// in the same launch by the block that finishes last.
enum class Axis : std::uint8_t { grid_x, grid_y, grid_z, thread_x, thread_y, cluster_x, across, last_block };

/// How a GPU's caches treat what is loaded: as they like; without a line of the first level; as the first, or the last, to go.
enum class Caching : std::uint8_t { normal, no_allocate, evict_first, evict_last };

/// How a nest reads a buffer: for each dimension, the loop it is indexed with when it is exactly that loop, else "".
struct ReadInfo {
  std::string buffer;
  std::vector<std::string> dims;
  bool by_data = false;  ///< a dimension is indexed by data that the loops move through
};

/// One perfect nest of the kernel, outermost loop first.
struct NestInfo {
  std::string buffer;               ///< what it writes (first state component of a tuple)
  bool is_init = false;             ///< stores the identity of a reduction
  bool is_update = false;           ///< combines into `buffer` with `monoid`
  std::string monoid;               ///< `sum`, `max`, `argmax`, ...; empty when not an update
  std::vector<LoopId> loops;        ///< all of them
  std::vector<LoopId> spatial;      ///< those that index `buffer`
  std::vector<LoopId> reduction;    ///< those that do not
  std::vector<ReadInfo> reads;      ///< in order of appearance
  bool writes_output = false;       ///< `buffer` is a parameter of the kernel
  bool is_product = false;          ///< sums products of two elements, each as it is read or cast
  bool scatters = false;            ///< one dimension of what it writes is indexed by data that its loops move through
  int scattered_dim = -1;           ///< that dimension
  bool finds_groups = false;        ///< finds the group of each row among offsets, as group_of does
  bool is_costly = false;           ///< computes a division or a function of many instructions
};

struct BufferShape {
  DType dtype = DType::f32;
  std::vector<Dim> shape;           ///< in the workload's symbols
  bool is_param = false;
  bool is_dense = true;             ///< row-major without gaps
};

class Schedule {
 public:
  /// Takes a naive kernel; `target` tells the template what it schedules for.
  Schedule(ir::Kernel kernel, Target target);
  ~Schedule();
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule&&) noexcept;

  // ---- questions (empty after a rejection)
  const Target& target() const;
  Accuracy accuracy() const;
  std::vector<NestInfo> nests() const;
  /// Loops of the nest that computes `buffer` (of a reduction: the updating nest), outermost first.
  std::vector<LoopId> loops(const std::string& buffer) const;
  BufferShape buffer(const std::string& name) const;
  /// Largest value of a loop's extent over the symbols' ranges; and the value when it is constant.
  std::int64_t max_extent(const LoopId& loop) const;
  std::optional<std::int64_t> constant_extent(const LoopId& loop) const;
  /// Names of loops directly under `loop`, or the outermost loops for an empty name.
  std::vector<LoopId> children(const LoopId& loop) const;

  // ---- steps: loops
  /// for i → for i_o, i_1, .., i_i with the given inner factors (outermost first); n factors make n + 1 loops.
  std::vector<LoopId> split(const LoopId& loop, const std::vector<std::int64_t>& factors, Tail tail = Tail::guard);
  /// Two directly nested loops → one; the outer's extent times the inner's.
  LoopId fuse(const LoopId& outer, const LoopId& inner);
  /// Two loops of one extent behind each other → one, with the first's body in front; the second keeps its name.
  void merge(const LoopId& first, const LoopId& second);
  /// Puts the named loops of one perfect nest in this order, in the places they occupy together.
  void reorder(const std::vector<LoopId>& loops);
  void parallel(const LoopId& loop);
  void bind(const LoopId& loop, Axis axis);
  void unroll(const LoopId& loop);
  void vectorize(const LoopId& loop);

  // ---- steps: buffers
  /// Substitutes the pointwise definition of an intermediate into its readers and drops it.
  void inline_buffer(const std::string& buffer);
  /// Moves the nests that compute an intermediate to the start of `loop`'s body, computing just the region that the
  /// body reads; the buffer shrinks to that region and moves to `place`. The moved nests' loops keep their names.
  void compute_at(const std::string& buffer, const LoopId& loop, Place place);
  /// Moves the pointwise nest that computes `consumer` to the end of `loop`'s body, applied to the tile of the producer
  /// that the body completes; the producer shrinks to that tile and moves to `place`, or stays whole while it is an
  /// output or another nest reads it. The consumer's loops over the tile are made anew and returned, outermost first.
  /// `bringing`: nests in between that compute what else the consumer reads move in front of the producer.
  std::vector<LoopId> fuse_epilogue(const std::string& consumer, const LoopId& loop, Place place, bool bringing = false);
  /// Inside `loop`'s body, `buffer` (written or updated there) is held in a local tile, filled before where it is read
  /// first and written back after. Returns the loops of the copy back.
  std::vector<LoopId> hold(const std::string& buffer, const LoopId& loop, Place place);
  /// Copies the region of `buffer` that `loop`'s body reads into a local buffer first, and reads that instead.
  /// `order` permutes the dimensions of the copy, and each factor > 1 in `tiles` (per dimension of `buffer`) moves an
  /// innermost tile of that dimension to the end of the layout (packing); rows beyond the region are zero when a tile is
  /// padded. Empty = the buffer's own order, no tiles. An empty loop name stages the whole buffer, once it is
  /// computed. `converted`: every read goes through a cast to one dtype (or is rounded to tf32), and the copy holds what that gives.
  /// Returns the loops of the copy, outermost first.
  std::vector<LoopId> stage(const std::string& buffer, const LoopId& loop, Place place,
                            const std::vector<int>& order = {}, const std::vector<std::int64_t>& tiles = {},
                            bool converted = false);
  /// Splits the reduction over `loop` into `ways` partial results that are combined afterwards: partial w takes the
  /// iterations with index % ways == w (`interleaved`, for vector lanes) or the w-th block (for workers). Returns
  /// {loop over ways, inner loop, loop of the combination}.
  std::vector<LoopId> reduce_across(const LoopId& loop, std::int64_t ways, bool interleaved, Place place);

  /// A running combination over `loop` (y[i] from y[i - 1]) goes over its elements in passes of `ways` chunks, a share of
  /// them for each of the blocks: each chunk alone, what the chunks in front of each come to, and both together. Returns
  /// {loop over passes}, then for each nest its loops, outermost first: the chunks as they are read, and as they add up;
  /// [with blocks: the beginning of their shares; the ways of a block;] the combination of all chunks, or of the blocks;
  /// both together; the result; and the loops of the beginning, if any. Loops over chunks are [block,] way, element, and then
  /// those inside `loop`; of a combination [block,] those inside `loop`, and way.
  std::vector<LoopId> scan_across(const LoopId& loop, std::int64_t ways, std::int64_t chunk, std::int64_t blocks = 1);

  /// An argmin or argmax whose partial results `combination` combines finds the best value first, then its place, which
  /// only those parts look for that reach the value. Returns the loops of the second search, as the partial results have
  /// them, and its combination. With a group, so many neighbouring parts are looked for together under one condition; the
  /// loop over those of a group is the last in front of the combination.
  std::vector<LoopId> value_first(const LoopId& combination, std::int64_t group = 1);

  /// Copies staged in shared memory at `loop`, their loops bound already, read their source an iteration ahead, into registers.
  void load_ahead(const LoopId& loop);

  /// A loop around one store or update that writes where data says becomes a loop over parts of so many elements of the
  /// target around itself, each of which writes its own part alone. Returns it.
  std::vector<LoopId> split_targets(const LoopId& loop, std::int64_t part);

  /// A loop over tiles of so many rows, perhaps fused with loops inside, becomes one whose tiles begin where groups of rows do,
  /// as the nest (group_of) says that computes `group` for each row. `group` is one number for each tile from then on. Each iteration looks
  /// for its tile, or, with `ahead`, a nest in front does for all of them; returns the loops of the search, outermost first.
  std::vector<LoopId> align_rows(const LoopId& loop, const std::string& group, std::int64_t tile, bool ahead = false);

  // ---- steps: tensor cores
  /// The nest of `row`, `column` and `reduction` (constant, in this order, innermost) is done by tensor cores: a sum of
  /// products of two tiles, in a fragment: of warpgroups from shared memory, of a warp from fragments.
  void tensorize(const LoopId& row, const LoopId& column, const LoopId& reduction);
  /// Products of two f32 inputs that `loop`'s body sums into a local buffer become sums of products of three bf16 parts of
  /// each operand, gathered in a partial sum that is added to the buffer afterwards: f32 accuracy on tensor cores. Returns
  /// the loops of the nests that make the parts, each with the loop over parts last: the left operand's, then the right's.
  /// `rechecked`: sums that are not finite are made again in plain arithmetic, instead of parts that take care of infinities; one
  /// operand may be bf16 then, which is its own part.
  std::vector<LoopId> separate(const LoopId& loop, bool rechecked = false);
  /// Factors of the products of f32 values that `loop`'s body sums up are rounded to tf32, in a kernel that allows it.
  void round_factors(const LoopId& loop);
  /// Copies staged in shared memory at `loop` become slots of rings, filled by the copy engine `depth` iterations ahead
  /// of the tensor cores, or of the threads, which read them.
  /// `async`: the threads that copy do so without waiting, `depth` - 1 iterations ahead.
  void ring(const LoopId& loop, std::int64_t depth, bool async = false);
  /// A copy of a tile in shared memory to a parameter is done by the copy engine; `loop` is the outermost of its nest.
  void bulk(const LoopId& loop);
  /// The iterations of a grid loop are shared out among so many blocks, each of which does one after the other: with
  /// `turns` above 1 (at thread_y) that many groups of threads have iterations of their own at the same time. Returns the
  /// loops over blocks, over what a block does in turn, and over turns.
  std::vector<LoopId> persist(const LoopId& loop, std::int64_t blocks, std::int64_t turns = 1);

  /// Stores to an output that the kernel does not read go past the caches.
  void stream(const std::string& buffer);

  /// What loads of an input that is read only ask of a GPU's caches.
  void cache(const std::string& buffer, Caching policy);

  // ---- assumptions of the variant
  /// The variant serves only values of the workload's symbol that are multiples of `factor`.
  void assume_multiple(const std::string& symbol, std::int64_t factor);
  /// Every pointer is aligned to this many bytes.
  void assume_alignment(std::int64_t bytes);

  /// Runs `steps` on a copy and keeps the result only when nothing was rejected; says whether it was kept.
  bool attempt(const std::function<void(Schedule&)>& steps);
  /// Another schedule of the kernel as it is now, without the steps that led here: for questions about what steps would give.
  Schedule copy() const;

  // ---- result
  bool ok() const;
  /// The rejection; a Bug when ok().
  const Error& error() const;
  /// Stops the template with a reason (requirement_failed).
  void reject(const std::string& reason);
  /// The kernel as it is now, Level::scheduled.
  const ir::Kernel& kernel() const;
  /// One step a line.
  std::string trace() const;

 private:
  struct State;
  std::vector<std::string> take(const void* step);  ///< a schedule::Step; the names of the loops that it made
  std::unique_ptr<State> state_;
};

/// The choices of one candidate by name, in the order in which the template asked.
struct Pick {
  std::string name;
  std::int64_t value = 0;
  bool operator==(const Pick&) const = default;
};
using Picks = std::vector<Pick>;
std::string print_picks(const Picks& picks);  ///< `tile_m=64 tile_n=128`
Result<Picks> parse_picks(std::string_view text);

/// Where a template's choices come from. Define-by-run: which picks exist may depend on earlier ones.
class Space {
 public:
  /// First value of every domain: the default candidate.
  Space();
  /// Values by name; a name without a value, or a value outside its domain, takes the domain's first.
  explicit Space(Picks chosen);
  /// Uniformly random, from the seed; names in `kept` keep their value where it is in the domain.
  Space(std::uint64_t seed, Picks kept);

  std::int64_t pick(const std::string& name, const std::vector<std::int64_t>& domain);
  bool pick_flag(const std::string& name, bool first = false);

  struct Choice {
    Pick pick;
    std::vector<std::int64_t> domain;
  };
  /// What was asked and answered so far.
  const std::vector<Choice>& choices() const { return choices_; }
  Picks picks() const;

 private:
  Picks chosen_;
  bool random_ = false;
  std::uint64_t state_ = 0;
  std::vector<Choice> choices_;
};

/// One schedule family.
struct Template {
  const char* name;
  std::int32_t version;  ///< raised when the same picks give another kernel
  TargetKind kind;
  /// True when this template can do something useful with the kernel.
  bool (*applies)(const Schedule& s);
  void (*run)(Schedule& s, Space& k);
};
/// All templates, in order of preference; the last one, `general`, applies to everything.
const std::vector<Template>& catalogue();

}  // namespace loopwright
