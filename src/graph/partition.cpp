#include "src/graph/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/graph/naive_kernel.h"
#include "src/graph/ops.h"

namespace loopwright::graph {
namespace {

using Id = std::int32_t;
/// Rows longer than this are not joined with what needs their reduction, when there is only one row.
constexpr std::int64_t kLongestSingleRow = 1 << 16;
constexpr int kLongestRecomputedChain = 4;
/// Terms of a thin product. Adapters of low rank have 4 to 32; an epilogue that computes more of them is no small part of
/// its product any more.
constexpr std::int64_t kMostThinTerms = 32;
/// Products of one tile: more would leave each of them few columns.
constexpr std::size_t kMostSums = 4;
/// Up to so many rows kernels that stream the weights do without tiles.
constexpr std::int64_t kFewRows = 8;

enum class Core : std::uint8_t { pointwise, reduction, contraction, scan, write };

/// A kernel in the making.
struct Cluster {
  Core core = Core::pointwise;
  std::vector<Id> nodes;
  std::vector<Dim> space;  ///< shape of its pointwise ops; of a reduction the shape that is reduced
  std::vector<std::int64_t> axes;
  bool is_row = false;  ///< reduction whose results may be used in the full shape within the kernel
};

/// How a value reaches a node: the node with memory (or input) at the other end, and whether only pointwise ops of one
/// shape, or an inserted axis of size 1, lie between.
struct Source {
  Id node;
  bool is_elementwise;
};

bool is_cheap(std::string_view op) {
  static const std::set<std::string_view> kCheap = {
      "neg",    "abs", "sign", "logical_not", "bit_not", "floor",  "ceil",  "round", "trunc", "is_nan",
      "is_inf", "add", "sub",  "mul",         "min",     "max",    "and",   "or",    "xor",   "eq",
      "ne",     "lt",  "le",   "gt",          "ge",      "select", "clamp", "cast",  "copy"};
  return kCheap.contains(op);
}

class Partitioner {
 public:
  Partitioner(const Graph& g, const Grouping& grouping)
      : g_(g),
        grouping_(grouping),
        live_(g.nodes().size()),
        recomputed_(g.nodes().size()),
        home_(g.nodes().size(), -1),
        sources_(g.nodes().size()) {
    find_live();
    find_recomputed();
  }

  Partition run() {
    for (Id n = 0; n < size(); ++n)
      if (live_[n] && !recomputed_[n] && g_.nodes()[n].op != "input") place(n);
    if (grouping_.reductions_beside_each_other) join_reductions();
    return finish();
  }

 private:
  Id size() const { return static_cast<Id>(g_.nodes().size()); }
  const Node& node(Id n) const { return g_.nodes()[n]; }
  const std::vector<Dim>& shape(Id n) const { return node(n).type.shape; }
  OpKind kind(Id n) const { return find_op(node(n).op)->kind; }

  // ---- what is computed at all, and what again and again

  void find_live() {
    for (const Graph::Output& output : g_.outputs()) needed_[output.value.id] = true;
    for (const Graph::Update& update : g_.updates()) needed_[update.value.id] = true;
    for (const auto& [n, yes] : needed_) live_[n] = true;
    for (Id n = size(); n-- > 0;)
      if (live_[n])
        for (Value v : node(n).inputs) live_[v.id] = true;
  }

  void find_recomputed() {
    std::vector<int> chain(g_.nodes().size(), 0);  // pointwise ops that recomputing a node repeats
    std::vector<bool> free(g_.nodes().size());     // recomputed from no tensor at all
    for (Id n = 0; n < size(); ++n) {
      if (node(n).op == "input" || needed_.contains(n)) continue;
      std::set<Id> tensors;
      int longest = 0;
      for (Value v : node(n).inputs) {
        if (!free[v.id]) tensors.insert(v.id);
        if (recomputed_[v.id]) longest = std::max(longest, chain[v.id]);
      }
      const OpKind k = kind(n);
      const bool is_short = k == OpKind::pointwise && is_cheap(node(n).op) && tensors.size() <= 1 &&
                            longest < kLongestRecomputedChain && !is_narrowing(n, tensors);
      if (k != OpKind::source && k != OpKind::view && !is_short) continue;
      recomputed_[n] = true;
      free[n] = tensors.empty();
      chain[n] = longest + (k == OpKind::pointwise && node(n).op != "cast" && node(n).op != "copy");
    }
  }

  /// A narrower result of something that is computed is what should go through memory.
  bool is_narrowing(Id n, const std::set<Id>& tensors) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](Id t) {
      return node(t).op != "input" && !recomputed_[t] &&
             size_bytes(node(n).type.dtype) < size_bytes(node(t).type.dtype);
    });
  }

  /// The operands of `n` with memory of their own, looking through recomputed nodes.
  const std::vector<Source>& sources(Id n) const {
    std::optional<std::vector<Source>>& out = sources_[n];
    if (out) return *out;
    std::map<Id, bool> found;
    std::set<std::pair<Id, bool>> seen;
    visit_sources(n, n, true, found, seen);
    out.emplace();
    for (const auto& [id, elementwise] : found) out->push_back({id, elementwise});
    return *out;
  }

  void visit_sources(Id root, Id n, bool elementwise, std::map<Id, bool>& found,
                     std::set<std::pair<Id, bool>>& seen) const {
    if (!seen.insert({n, elementwise}).second) return;
    if (n != root && !recomputed_[n]) {
      auto [entry, is_new] = found.try_emplace(n, elementwise);
      entry->second = entry->second && elementwise;
      return;
    }
    for (Value v : node(n).inputs) {
      const bool same_axes = shape(v.id).empty() || shape(v.id).size() == shape(n).size();
      const bool keeps = n == root || (kind(n) == OpKind::pointwise && same_axes) || inserts_axes(n);
      visit_sources(root, v.id, elementwise && keeps, found, seen);
    }
  }

  /// A reshape that only adds axes of size 1, not at the front.
  bool inserts_axes(Id n) const {
    if (node(n).op != "reshape") return false;
    std::vector<Dim> plain = shape(n), from = shape(node(n).inputs[0].id);
    if (from.empty()) return true;
    while (plain.size() > from.size() && plain.back() == Dim(1)) plain.pop_back();
    return plain == from;
  }

  // ---- clusters

  void place(Id n) {
    switch (kind(n)) {
      case OpKind::contraction: start(n, Core::contraction); return;
      case OpKind::scan: absorb_into(start(n, Core::scan), n); return;
      case OpKind::write: absorb_into(start(n, Core::write), n); return;
      case OpKind::reduction: place_reduction(n); return;
      case OpKind::source: start(n, Core::pointwise); return;
      case OpKind::gather: absorb_into(start(n, Core::pointwise), n); return;
      case OpKind::view:
        if (node(n).op == "broadcast") start(n, Core::pointwise);
        else absorb_into(start(n, Core::pointwise), n);
        return;
      case OpKind::pointwise: place_pointwise(n); return;
    }
  }

  int start(Id n, Core core) {
    Cluster cluster;
    cluster.core = core;
    cluster.nodes = {n};
    cluster.space = shape(n);
    home_[n] = static_cast<int>(clusters_.size());
    clusters_.push_back(std::move(cluster));
    return home_[n];
  }

  void add(int cluster, Id n) {
    clusters_[cluster].nodes.push_back(n);
    home_[n] = cluster;
  }

  /// Moves everything of `from` into `into`.
  void merge(int into, int from) {
    for (Id n : clusters_[from].nodes) add(into, n);
    clusters_[from].nodes.clear();
  }

  /// True when the clusters can be one kernel together with `n`: nothing outside lies between them.
  bool is_acyclic(const std::set<int>& together, Id n) const {
    std::vector<int> pending;
    std::set<int> seen;
    auto push_sources = [&](Id of) {
      for (const Source& s : sources(of))
        if (home_[s.node] >= 0 && !together.contains(home_[s.node]) && seen.insert(home_[s.node]).second)
          pending.push_back(home_[s.node]);
    };
    push_sources(n);
    for (int c : together)
      for (Id member : clusters_[c].nodes) push_sources(member);
    while (!pending.empty()) {
      const int c = pending.back();
      pending.pop_back();
      for (Id member : clusters_[c].nodes)
        for (const Source& s : sources(member)) {
          if (home_[s.node] < 0) continue;
          if (together.contains(home_[s.node])) return false;
          if (seen.insert(home_[s.node]).second) pending.push_back(home_[s.node]);
        }
    }
    return true;
  }

  /// Nodes that read `n`, looking through recomputed ones.
  std::vector<Id> readers(Id n) const {
    std::vector<Id> out;
    std::set<Id> seen;
    std::vector<Id> pending{n};
    while (!pending.empty()) {
      const Id at = pending.back();
      pending.pop_back();
      for (Id user = at + 1; user < size(); ++user) {
        const auto& inputs = node(user).inputs;
        if (!live_[user] || std::find(inputs.begin(), inputs.end(), Value{at}) == inputs.end() ||
            !seen.insert(user).second)
          continue;
        if (recomputed_[user]) pending.push_back(user);
        else out.push_back(user);
      }
    }
    return out;
  }

  /// Pointwise clusters that only `n` reads become part of its cluster.
  void absorb_into(int cluster, Id n) {
    for (const Source& s : sources(n)) {
      const int from = home_[s.node];
      if (from < 0 || from == cluster || clusters_[from].core != Core::pointwise) continue;
      const auto& nodes = clusters_[from].nodes;
      const bool is_private = std::all_of(nodes.begin(), nodes.end(), [&](Id member) {
        if (needed_.contains(member) || kind(member) != OpKind::pointwise) return false;
        const std::vector<Id> users = readers(member);
        return std::all_of(users.begin(), users.end(),
                           [&](Id user) { return user == n || home_[user] == from; });
      });
      if (is_private && is_acyclic({cluster, from}, n)) merge(cluster, from);
    }
  }

  // ---- reductions

  void place_reduction(Id n) {
    const Call call = call_of(g_, node(n));
    const std::vector<Dim>& space = call.operands[0].shape;
    const std::vector<std::int64_t>& axes = call.integers("axes");
    std::set<int> joined;
    for (const Source& s : sources(n)) {
      const int c = home_[s.node];
      if (c < 0 || !s.is_elementwise || shape(s.node) != space) continue;
      const Cluster& cluster = clusters_[c];
      const bool fits = (cluster.core == Core::pointwise && cluster.space == space) ||
                        (cluster.core == Core::reduction && cluster.space == space && cluster.axes == axes);
      if (!fits) continue;
      std::set<int> more = joined;
      more.insert(c);
      if (is_acyclic(more, n)) joined = std::move(more);
    }
    int cluster = -1;
    for (int c : joined)
      if (clusters_[c].core == Core::reduction && cluster < 0) cluster = c;
    if (cluster < 0) cluster = joined.empty() ? start(n, Core::reduction) : *joined.begin();
    if (home_[n] < 0) add(cluster, n);
    for (int c : joined)
      if (c != cluster) merge(cluster, c);
    Cluster& target = clusters_[cluster];
    target.core = Core::reduction;
    target.space = space;
    target.axes = axes;
    target.is_row = is_row_reduction(space, axes);
  }

  bool is_row_reduction(const std::vector<Dim>& space, const std::vector<std::int64_t>& axes) const {
    if (axes.empty()) return false;
    for (std::size_t k = 0; k < axes.size(); ++k)
      if (axes[k] != static_cast<std::int64_t>(space.size() - axes.size() + k)) return false;
    if (axes.size() < space.size()) return true;
    Result<Dim::Bounds> length = product(space).bounds(g_.symbols());
    return space.size() == 1 && length.ok() && length->hi <= kLongestSingleRow;
  }

  /// Tensors that a cluster reads in the shape that it reduces.
  std::set<Id> reduced_tensors(const Cluster& c) const {
    std::set<Id> out;
    for (Id n : c.nodes)
      for (const Source& s : sources(n))
        if (shape(s.node) == c.space && std::find(c.nodes.begin(), c.nodes.end(), s.node) == c.nodes.end()) out.insert(s.node);
    return out;
  }

  /// A place down columns goes through memory and takes a launch of its own.
  bool has_place_in_columns(const Cluster& c) const {
    return !c.is_row && std::any_of(c.nodes.begin(), c.nodes.end(), [&](Id n) { return node(n).op == "argmax" || node(n).op == "argmin"; });
  }

  void join_reductions() {
    std::vector<int> reductions;
    std::map<int, std::set<Id>> read;
    for (int c = 0; c < static_cast<int>(clusters_.size()); ++c) {
      if (clusters_[c].nodes.empty() || clusters_[c].core != Core::reduction || has_place_in_columns(clusters_[c])) continue;
      read[c] = reduced_tensors(clusters_[c]);
      const auto beside = std::find_if(reductions.begin(), reductions.end(), [&](int other) {
        const Cluster &a = clusters_[other], &b = clusters_[c];
        const bool shares = std::any_of(read[c].begin(), read[c].end(), [&](Id t) { return read[other].contains(t); });
        return shares && a.space == b.space && a.axes == b.axes && is_acyclic({other, c}, b.nodes.front());
      });
      if (beside == reductions.end()) {
        reductions.push_back(c);
        continue;
      }
      read[*beside].insert(read[c].begin(), read[c].end());
      merge(*beside, c);
    }
  }

  // ---- pointwise

  std::vector<Dim> reduced_shape(const Cluster& c, bool keepdim) const {
    std::vector<Dim> out;
    for (std::size_t d = 0; d < c.space.size(); ++d) {
      const bool reduced = std::binary_search(c.axes.begin(), c.axes.end(), static_cast<std::int64_t>(d));
      if (!reduced) out.push_back(c.space[d]);
      else if (keepdim) out.push_back(Dim(1));
    }
    return out;
  }

  /// May pointwise `n` run in the kernel of its operand `s`?
  bool fits(Id n, const Source& s) const {
    const Cluster& c = clusters_[home_[s.node]];
    if (!s.is_elementwise) return false;
    switch (c.core) {
      case Core::scan:
      case Core::write: return false;
      case Core::pointwise: return c.space == shape(n) && shape(s.node) == shape(n);
      case Core::contraction:
        return c.space == shape(n) && shape(s.node) == shape(n) && ends_in_epilogue(s.node);
      case Core::reduction: break;
    }
    const std::vector<Dim> kept = reduced_shape(c, true), dropped = reduced_shape(c, false);
    if (shape(n) == c.space && shape(s.node) == c.space)
      return c.is_row || !reads_reduction(n, home_[s.node]);
    // A scalar of the row meets the row, but never another axis: only with its axes kept, or put back behind.
    if (shape(n) == c.space && (shape(s.node) == kept || shape(s.node) == dropped))
      return c.is_row && meets_rows(n, s.node, kept);
    if (shape(n) != kept && shape(n) != dropped) return false;
    return shape(s.node) == shape(n) ||
           (shape(n) == kept && shape(s.node) == dropped && meets_rows(n, s.node, kept));
  }

  /// Every path from `from` to `n` arrives in the kept shape (or from a single number).
  bool meets_rows(Id n, Id from, const std::vector<Dim>& kept) const {
    if (shape(from).empty() || shape(from) == kept) return true;
    for (Value v : node(n).inputs)
      if (recomputed_[v.id] && shape(v.id).size() != kept.size()) {
        for (const Source& s : sources(v.id))
          if (s.node == from) return false;
      } else if (v.id == from) {
        return false;
      }
    return true;
  }

  /// Does `n` need a reduction of the cluster, directly or through its members?
  bool reads_reduction(Id n, int cluster) const {
    std::vector<Id> pending{n};
    std::set<Id> seen;
    while (!pending.empty()) {
      const Id at = pending.back();
      pending.pop_back();
      for (const Source& s : sources(at)) {
        if (home_[s.node] != cluster || !seen.insert(s.node).second) continue;
        if (kind(s.node) == OpKind::reduction) return true;
        pending.push_back(s.node);
      }
    }
    return false;
  }

  /// The product needs no memory of its own when everything behind it is pointwise and of its shape.
  bool ends_in_epilogue(Id n) const {
    if (needed_.contains(n)) return false;
    const std::vector<Id> users = readers(n);
    return std::all_of(users.begin(), users.end(),
                       [&](Id user) { return kind(user) == OpKind::pointwise && shape(user) == shape(n); });
  }

  /// Terms of a product; nothing where symbols say how many.
  std::optional<std::int64_t> terms_of(Id n) const {
    const Call call = call_of(g_, node(n));
    return product(std::get<Reduction>(call.op->definition).parts(call).reduced).constant();
  }
  bool is_thin_product(Id n) const {
    const auto terms = terms_of(n);
    return grouping_.thin_products_in_epilogues && terms && *terms <= kMostThinTerms;
  }

  /// A product of few terms, and nothing that sums beside it.
  bool is_thin(const Cluster& c) const {
    return c.core == Core::contraction && std::all_of(c.nodes.begin(), c.nodes.end(), [&](Id n) { return kind(n) != OpKind::contraction || is_thin_product(n); });
  }

  /// Whether a tile of the product may hold the sums of others too: what tensor cores take from memory as it is, of more rows than
  /// kernels that stream the weights alone take.
  bool is_tiled(Id n) const {
    for (Value v : node(n).inputs) {
      const TensorType& type = node(v.id).type;
      const bool is_in_memory = node(v.id).op == "input" || !recomputed_[v.id];
      const auto length = type.shape.back().constant();
      if (!is_in_memory || size_bytes(type.dtype) != 2 || !is_float(type.dtype) || !type.strides.empty() || !length || *length % 8 != 0) return false;
    }
    const std::vector<Dim>& result = shape(n);
    if (result.size() < 2 || !terms_of(n)) return false;
    const auto rows = result[result.size() - 2].bounds(g_.symbols());
    return rows.ok() && rows->hi > kFewRows;
  }

  /// Whether the products of two clusters can be sums of one tile: of one left operand, which is then loaded once, and one form.
  bool is_beside(const Cluster& a, const Cluster& b) const {
    if (!grouping_.products_side_by_side || a.core != Core::contraction || b.core != Core::contraction) return false;
    std::vector<Id> sums;
    for (const Cluster* c : {&a, &b})
      for (Id n : c->nodes)
        if (kind(n) == OpKind::contraction && !is_thin_product(n)) sums.push_back(n);
    return sums.size() <= kMostSums && std::all_of(sums.begin(), sums.end(), [&](Id n) {
      return is_tiled(n) && node(n).inputs[0] == node(sums[0]).inputs[0] && node(n).attributes == node(sums[0]).attributes;
    });
  }

  int rank_of(const Cluster& c) const {
    if (c.core != Core::contraction) return c.core == Core::reduction ? 1 : 0;
    return is_thin(c) ? 2 : 3;
  }

  void place_pointwise(Id n) {
    const std::vector<Source>& operands = sources(n);
    int best = -1;
    for (const Source& s : operands) {
      const int c = home_[s.node];
      if (c < 0 || c == best || !fits(n, s) || !all_fit(n, operands, c) || !is_acyclic({c}, n)) continue;
      const bool better = best < 0 || rank_of(clusters_[c]) > rank_of(clusters_[best]) ||
                          (rank_of(clusters_[c]) == rank_of(clusters_[best]) && c > best);
      if (better) best = c;
    }
    if (best < 0) {
      start(n, Core::pointwise);
      return;
    }
    add(best, n);
    for (const Source& s : operands) {
      const int c = home_[s.node];
      if (c >= 0 && c != best && can_merge(best, c) && fits(n, s) && all_fit(n, operands, c) &&
          is_acyclic({best, c}, n))
        merge(best, c);
    }
  }

  bool all_fit(Id n, const std::vector<Source>& operands, int cluster) const {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Source& s) { return home_[s.node] != cluster || fits(n, s); });
  }

  bool can_merge(int into, int from) const {
    const Cluster &a = clusters_[into], &b = clusters_[from];
    if (a.space != b.space) return false;
    if (b.core == Core::reduction) return a.core == Core::reduction && a.axes == b.axes;
    const bool is_thin_beside = is_thin(b) && a.core == Core::contraction && !is_thin(a);
    if (b.core != Core::pointwise && !is_thin_beside && !is_beside(a, b)) return false;
    if (a.core != Core::contraction) return true;
    // An epilogue computes only what ends in its one result.
    return std::all_of(b.nodes.begin(), b.nodes.end(), [&](Id m) {
      if (needed_.contains(m)) return false;
      const std::vector<Id> users = readers(m);
      return std::all_of(users.begin(), users.end(),
                         [&](Id user) { return home_[user] == into || home_[user] == from; });
    });
  }

  // ---- the result

  Partition finish() {
    Partition out;
    out.recomputed = recomputed_;
    std::set<int> done;
    std::vector<int> left;
    for (int c = 0; c < static_cast<int>(clusters_.size()); ++c)
      if (!clusters_[c].nodes.empty()) {
        std::sort(clusters_[c].nodes.begin(), clusters_[c].nodes.end());
        left.push_back(c);
      }
    std::sort(left.begin(), left.end(),
              [&](int a, int b) { return clusters_[a].nodes < clusters_[b].nodes; });
    while (!left.empty()) {
      auto ready = std::find_if(left.begin(), left.end(), [&](int c) {
        for (Id n : clusters_[c].nodes)
          for (const Source& s : sources(n))
            if (home_[s.node] >= 0 && home_[s.node] != c && !done.contains(home_[s.node])) return false;
        return true;
      });
      LW_BUG_IF(ready == left.end(), "a cycle between kernels of graph " + g_.name());
      out.kernels.push_back(clusters_[*ready].nodes);
      done.insert(*ready);
      left.erase(ready);
    }
    return out;
  }

  const Graph& g_;
  Grouping grouping_;
  std::vector<bool> live_;
  std::vector<bool> recomputed_;
  std::map<Id, bool> needed_;  ///< outputs and values of updates: always have memory
  std::vector<int> home_;      ///< by node: its cluster, -1 for inputs and recomputed nodes
  std::vector<Cluster> clusters_;
  mutable std::vector<std::optional<std::vector<Source>>> sources_;  ///< filled when first asked for
};

}  // namespace

Partition partition_ops(const Graph& g, const Grouping& grouping) { return Partitioner(g, grouping).run(); }

}  // namespace loopwright::graph
