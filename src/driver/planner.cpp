#include "src/driver/planner.h"

#include <map>
#include <set>

#include "src/runtime/flights.h"
#include "src/support/digest.h"

namespace loopwright::driver {
namespace {

/// Wires groups together. Tensors of the plan are named by the values of the graph they hold.
class Planner {
 public:
  Planner(const Graph& graph, TargetKind kind) : graph_(graph), kind_(kind) {
    for (const Symbol& s : graph.symbols()) symbol_names_.push_back(s.name);
  }

  Result<Planned> run() {
    LW_CHECK(graph::check_computes(graph_));
    planned_.spec.name = graph_.name();
    planned_.spec.graph_digest = sha256_hex(graph_.text());
    planned_.spec.symbols = graph_.symbols();
    LW_CHECK(add_parameters());
    for (const graph::Group& group : graph::group_ops(graph_, grouping_for(kind_))) LW_CHECK(add_kernel(group));
    LW_CHECK(copy_repeated_outputs());
    order_kernels();
    return std::move(planned_);
  }

 private:
  Result<std::vector<SizeExpr>> sizes(const std::vector<Dim>& dims) const {
    std::vector<SizeExpr> out;
    for (const Dim& d : dims) {
      LW_TRY(SizeExpr e, SizeExpr::from(d, symbol_names_));
      out.push_back(e);
    }
    return out;
  }

  /// Dense row-major strides where the type gives none. Extents of zero count as one, so that strides stay positive.
  Result<std::vector<SizeExpr>> strides(const TensorType& type) const {
    if (!type.strides.empty()) return sizes(type.strides);
    LW_TRY(std::vector<SizeExpr> shape, sizes(type.shape));
    std::vector<SizeExpr> out(shape.size(), SizeExpr(1));
    for (std::size_t d = shape.size(); d-- > 1;)
      out[d - 1] =
          SizeExpr::apply(SizeExpr::Op::mul, out[d], SizeExpr::apply(SizeExpr::Op::max, shape[d], 1));
    for (SizeExpr& s : out) s = fold(s);
    return out;
  }

  /// The constant when no symbol occurs.
  static SizeExpr fold(const SizeExpr& e) {
    return e.text().find('s') == std::string::npos ? SizeExpr(e.evaluate(nullptr)) : e;
  }

  Result<std::int32_t> add_tensor(const std::string& name, const TensorType& type, ArgRole role) {
    PlanTensor tensor{.name = name, .dtype = type.dtype, .role = role};
    LW_TRY(tensor.shape, sizes(type.shape));
    LW_TRY(tensor.strides, strides(type));
    planned_.spec.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(planned_.spec.tensors.size() - 1);
  }

  Status add_parameters() {
    std::set<std::int32_t> written;
    for (const Graph::Update& u : graph_.updates()) written.insert(u.input.id);
    for (Value v : graph_.inputs()) {
      const ArgRole role = written.count(v.id) ? ArgRole::inout : ArgRole::input;
      LW_TRY(tensor_of_[graph_.node(v).name], add_tensor(graph_.node(v).name, graph_.type(v), role));
    }
    for (const Graph::Output& o : graph_.outputs()) {
      LW_TRY(const std::int32_t t, add_tensor(o.name, graph_.type(o.value), ArgRole::output));
      const std::string& value = graph_.node(o.value).name;
      if (!tensor_of_.emplace(value, t).second) repeated_.push_back({value, t});
    }
    return Unit{};
  }

  Status add_kernel(const graph::Group& group) {
    PlanKernel kernel;
    runtime::Touched touched;
    for (const std::string& value : group.inputs) {
      auto it = tensor_of_.find(value);
      LW_BUG_IF(it == tensor_of_.end(), "group reads " + value + " before it is made");
      const bool updated = std::find(group.updates.begin(), group.updates.end(), value) != group.updates.end();
      (updated ? touched.written : touched.read).push_back(it->second);
      kernel.args.push_back(it->second);
    }
    for (std::size_t i = 0; i < group.outputs.size(); ++i) {
      const std::string& value = group.outputs[i];
      auto it = tensor_of_.find(value);
      if (it == tensor_of_.end()) {
        LW_TRY(const std::int32_t t, add_tensor(value, type_of(value), ArgRole::workspace));
        it = tensor_of_.emplace(value, t).first;
      }
      touched.written.push_back(it->second);
      kernel.args.push_back(it->second);
    }
    add_workload(std::move(kernel), group.graph, group.symbols, std::move(touched));
    return Unit{};
  }

  void add_workload(PlanKernel kernel, const Graph& graph, const std::vector<std::string>& symbols,
                    runtime::Touched touched) {
    touched_.push_back(std::move(touched));
    graph::Workload workload = graph::make_workload(graph);
    kernel.workload = workload.digest;
    if (graph.accuracy() != Accuracy::strict) kernel.strict_workload = graph::make_strict(workload).digest;
    kernel.family = workload.family;
    for (const std::string& s : symbols) {
      const auto at = std::find(symbol_names_.begin(), symbol_names_.end(), s);
      LW_BUG_IF(at == symbol_names_.end(), "unknown symbol " + s);
      kernel.symbols.push_back(static_cast<std::int32_t>(at - symbol_names_.begin()));
    }
    for (const Symbol& s : graph.symbols()) kernel.symbol_names.push_back(s.name);
    planned_.spec.kernels.push_back(std::move(kernel));
    planned_.workloads.push_back(std::move(workload));
  }

  /// An output that is an input, or a value given out twice, is a copy.
  Status copy_repeated_outputs() {
    for (const auto& [value, target] : repeated_) {
      Graph copy("copy");
      std::vector<std::string> used;
      std::map<std::string, std::string> renamed;
      TensorType type = type_of(value);
      for (const Symbol& s : graph_.symbols()) {
        if (!mentions(type, s.name)) continue;
        renamed[s.name] = "s" + std::to_string(used.size());
        LW_CHECK(as_status(copy.symbol(renamed[s.name], s.lo, s.hi)));
        used.push_back(s.name);
      }
      for (Dim& d : type.shape) d = d.rename(renamed);
      for (Dim& d : type.strides) d = d.rename(renamed);
      LW_TRY(const Value in, copy.input("i0", type));
      LW_TRY(const Value out, copy.apply("cast", {in}, {{"dtype", type.dtype}}, "t0"));
      LW_CHECK(copy.output("o0", out));
      const std::int32_t source = tensor_of_.at(value);
      add_workload({.args = {source, target}}, copy, used, {{source}, {target}});
    }
    return Unit{};
  }

  void order_kernels() {
    Planned ordered;
    for (const std::size_t k : runtime::gather_flights(touched_)) {
      ordered.spec.kernels.push_back(std::move(planned_.spec.kernels[k]));
      ordered.workloads.push_back(std::move(planned_.workloads[k]));
    }
    planned_.spec.kernels = std::move(ordered.spec.kernels);
    planned_.workloads = std::move(ordered.workloads);
  }

  template <class T>
  static Status as_status(const Result<T>& r) {
    if (!r.ok()) return r.error();
    return Unit{};
  }

  static bool mentions(const TensorType& type, const std::string& symbol) {
    for (const std::vector<Dim>* dims : {&type.shape, &type.strides})
      for (const Dim& d : *dims)
        for (const std::string& s : d.symbols())
          if (s == symbol) return true;
    return false;
  }

  TensorType type_of(const std::string& value) const {
    for (const Node& n : graph_.nodes())
      if (n.name == value) return n.type;
    throw_bug(__FILE__, __LINE__, "value exists", value);
  }

  const Graph& graph_;
  TargetKind kind_;
  std::vector<std::string> symbol_names_;
  std::map<std::string, std::int32_t> tensor_of_;
  std::vector<std::pair<std::string, std::int32_t>> repeated_;
  std::vector<runtime::Touched> touched_;  ///< by each kernel
  Planned planned_;
};

}  // namespace

graph::Grouping grouping_for(TargetKind kind) {
  const bool on_gpu = kind == TargetKind::cuda;
  return {.thin_products_in_epilogues = on_gpu, .products_side_by_side = on_gpu, .reductions_beside_each_other = on_gpu};
}

Result<Planned> plan_graph(const Graph& graph, TargetKind kind) { return Planner(graph, kind).run(); }

}  // namespace loopwright::driver
