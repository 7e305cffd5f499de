#include "src/graph/group.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/graph/naive_kernel.h"
#include "src/graph/ops.h"
#include "src/graph/partition.h"

namespace loopwright::graph {
namespace {

using Id = std::int32_t;

/// Takes a set of nodes out of a graph, under canonical names.
class Extractor {
 public:
  Extractor(const Graph& g, const std::map<Id, Id>& moved) : g_(g), moved_(moved) {}

  /// `members` are computed in the group; `outputs` of them are needed elsewhere; `updates` are positions in g.updates().
  Group extract(const std::vector<Id>& members, const std::vector<Id>& outputs,
                const std::vector<std::size_t>& updates, const std::vector<bool>& recomputed) {
    members_ = {members.begin(), members.end()};
    recomputed_ = &recomputed;
    std::set<Id> roots(outputs.begin(), outputs.end());
    for (Id n : outputs) visit(n);
    for (std::size_t u : updates) {
      visit(g_.updates()[u].value.id);
      visit_leaf(g_.updates()[u].input.id);
    }
    build(outputs);
    for (std::size_t u : updates) {
      const Graph::Update& update = g_.updates()[u];
      const Status status = group_.graph.update(made_.at(update.input.id), made_.at(update.value.id));
      LW_BUG_IF(!status.ok(), "update in a group: " + status.error().message());
      group_.updates.push_back(g_.node(update.input).name);
    }
    return std::move(group_);
  }

 private:
  /// The value that is read when node `n` is: an input when `n` lives in its memory.
  Id memory_of(Id n) const {
    auto found = moved_.find(n);
    return found == moved_.end() ? n : found->second;
  }

  void visit(Id n) {
    const bool is_inside = members_.contains(n) || (*recomputed_)[n];
    if (!is_inside) {
      visit_leaf(memory_of(n));
      leaf_of_[n] = memory_of(n);
      return;
    }
    if (!seen_.insert(n).second) return;
    for (Value v : g_.nodes()[n].inputs) visit(v.id);
    order_.push_back(n);
  }

  void visit_leaf(Id n) {
    if (std::find(leaves_.begin(), leaves_.end(), n) == leaves_.end()) leaves_.push_back(n);
  }

  /// Symbols are numbered where they first appear.
  Dim rename(const Dim& dim) {
    for (const std::string& name : dim.symbols()) {
      if (symbols_.contains(name)) continue;
      const auto symbol = std::find_if(g_.symbols().begin(), g_.symbols().end(),
                                       [&](const Symbol& s) { return s.name == name; });
      const std::string canonical = "s" + std::to_string(symbols_.size());
      symbols_[name] = canonical;
      group_.symbols.push_back(name);
      const Result<Dim> made = group_.graph.symbol(canonical, symbol->lo, symbol->hi);
      LW_BUG_IF(!made.ok(), "symbol of a group: " + made.error().message());
    }
    return dim.rename(symbols_);
  }

  std::vector<Dim> rename(const std::vector<Dim>& dims) {
    std::vector<Dim> out;
    for (const Dim& dim : dims) out.push_back(rename(dim));
    return out;
  }

  /// `i0`, `i1`, ...; those that would be the word of a dtype (`i8`) get an end of their own.
  static std::string name_input(std::size_t number) {
    std::string name = "i" + std::to_string(number);
    return parse_dtype(name) ? name + "_" : name;
  }

  /// Whether an accuracy other than strict means anything for a node.
  bool multiplies_f32(Id n) const {
    const Node& node = g_.nodes()[n];
    const Op* op = find_op(node.op);
    return op != nullptr && op->kind == OpKind::contraction && g_.type(node.inputs[0]).dtype == DType::f32;
  }

  void build(const std::vector<Id>& outputs) {
    group_.graph = Graph("group");
    for (Id n : leaves_) {
      const Node& node = g_.nodes()[n];
      const Result<Value> made =
          group_.graph.input(name_input(group_.inputs.size()),
                             {node.type.dtype, rename(node.type.shape), rename(node.type.strides)});
      LW_BUG_IF(!made.ok(), "input of a group: " + made.error().message());
      made_[n] = *made;
      group_.inputs.push_back(node.name);
    }
    int inner = 0;
    for (Id n : order_) {
      const Node& node = g_.nodes()[n];
      std::vector<Value> inputs;
      for (Value v : node.inputs) inputs.push_back(made_.at(leaf_of_.contains(v.id) ? leaf_of_[v.id] : v.id));
      std::vector<NamedAttribute> attributes = node.attributes;
      for (NamedAttribute& attribute : attributes)
        if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute.value))
          attribute.value = rename(*dims);
      const auto position = std::find(outputs.begin(), outputs.end(), n);
      const std::string name = position != outputs.end() ? "o" + std::to_string(position - outputs.begin())
                                                         : "t" + std::to_string(inner++);
      const Result<Value> made = group_.graph.apply(node.op, inputs, std::move(attributes), name);
      LW_BUG_IF(!made.ok(), "op of a group: " + made.error().message());
      made_[n] = *made;
    }
    if (std::any_of(order_.begin(), order_.end(), [&](Id n) { return multiplies_f32(n); })) group_.graph.allow(g_.accuracy());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Status status = group_.graph.output("o" + std::to_string(i), made_.at(outputs[i]));
      LW_BUG_IF(!status.ok(), "output of a group: " + status.error().message());
      group_.outputs.push_back(g_.nodes()[outputs[i]].name);
    }
  }

  const Graph& g_;
  const std::map<Id, Id>& moved_;
  std::set<Id> members_;
  const std::vector<bool>* recomputed_ = nullptr;
  std::vector<Id> leaves_, order_;
  std::set<Id> seen_;
  std::map<Id, Id> leaf_of_;
  std::map<Id, Value> made_;
  std::map<std::string, std::string> symbols_;
  Group group_;
};

/// Nodes that something outside their own kernel reads.
std::set<Id> find_shared(const Graph& g, const Partition& partition, const std::vector<int>& home) {
  std::set<Id> shared;
  for (std::size_t k = 0; k < partition.kernels.size(); ++k) {
    std::vector<Id> pending(partition.kernels[k]);
    std::set<Id> seen;
    while (!pending.empty()) {
      const Id n = pending.back();
      pending.pop_back();
      for (Value v : g.nodes()[n].inputs) {
        if (partition.recomputed[v.id] && seen.insert(v.id).second) pending.push_back(v.id);
        else if (home[v.id] >= 0 && home[v.id] != static_cast<int>(k)) shared.insert(v.id);
      }
    }
  }
  return shared;
}

}  // namespace

Status check_computes(const Graph& g) {
  if (!g.outputs().empty() || !g.updates().empty()) return Unit{};
  return Error{ErrorCode::wrong_arguments, "compute graph " + g.name(), "it has neither an output nor an update", "",
               "`output NAME` with a value of the graph, or `update INPUT = VALUE`"};
}

std::vector<Group> group_ops(const Graph& g, const Grouping& grouping) {
  const Partition partition = partition_ops(g, grouping);
  std::vector<int> home(g.nodes().size(), -1);
  for (std::size_t k = 0; k < partition.kernels.size(); ++k)
    for (Id n : partition.kernels[k]) home[n] = static_cast<int>(k);
  std::set<Id> shared = find_shared(g, partition, home);
  for (const Graph::Output& output : g.outputs()) shared.insert(output.value.id);

  // A value that is written in place lives in its input's memory from then on; nothing else reads the old contents.
  std::map<Id, Id> moved;
  std::map<Id, std::size_t> update_of;
  std::vector<std::size_t> at_end;
  for (std::size_t u = 0; u < g.updates().size(); ++u) {
    const Graph::Update& update = g.updates()[u];
    if (is_written_in_place(g, update) && !moved.contains(update.value.id)) {
      moved[update.value.id] = update.input.id;
      update_of[update.value.id] = u;
    } else {
      at_end.push_back(u);
    }
  }
  for (std::size_t u : at_end)
    if (!moved.contains(g.updates()[u].value.id)) shared.insert(g.updates()[u].value.id);

  std::vector<Group> groups;
  for (const std::vector<Id>& members : partition.kernels) {
    std::vector<Id> outputs;
    std::vector<std::size_t> updates;
    for (Id n : members) {
      if (update_of.contains(n)) updates.push_back(update_of[n]);
      else if (shared.contains(n)) outputs.push_back(n);
    }
    groups.push_back(Extractor(g, moved).extract(members, outputs, updates, partition.recomputed));
  }
  // All other updates copy a finished value, after everything that reads the old contents.
  for (std::size_t u : at_end)
    groups.push_back(Extractor(g, moved).extract({}, {}, {u}, std::vector<bool>(g.nodes().size())));
  return groups;
}

}  // namespace loopwright::graph
