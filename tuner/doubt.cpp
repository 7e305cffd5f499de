#include "tuner/doubt.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/driver/build.h"
#include "src/graph/ops.h"
#include "tuner/tolerance.h"

namespace loopwright::tuner {
namespace {

using Words = std::set<std::string, std::less<>>;
const Words kComparisons = {"eq", "ne", "lt", "le", "gt", "ge"};
const Words kSteps = {"floor", "ceil", "round", "trunc", "sign"};  // grow with their operand
const Words kSums = {"neg", "abs", "copy", "add", "sub", "min", "max", "clamp", "logical_not", "and", "or", "xor", "cast"};

/// Builds the doubts of values on demand. A Value with id -1 is absent: no doubt. The first error sticks, and what is built
/// after it is absent.
class DoubtBuilder {
 public:
  explicit DoubtBuilder(const Graph& source) : source_(source), graph_(source.name() + "_doubt") {
    for (const Symbol& s : source.symbols()) {
      keep(graph_.symbol(s.name, s.lo, s.hi));
      longest_[s.name] = s.hi;
    }
    for (const Value v : source.inputs()) values_[v.id] = keep(graph_.input(source.node(v).name, source.type(v)));
  }

  Result<std::optional<Graph>> run() {
    bool any = false;
    const auto add = [&](const std::string& tensor, Value v) {
      const Value d = doubt(v);
      if (!is_there(d)) return;
      any = true;
      const Status status = graph_.output(doubt_name(tensor), d);
      if (!status.ok() && !error_) error_ = status.error();
    };
    for (const Graph::Output& o : source_.outputs()) add(o.name, o.value);
    for (const Graph::Update& u : source_.updates()) add(source_.node(u.input).name, u.value);
    if (error_) return std::move(*error_).with_context("doubts of " + source_.name());
    if (!any) return std::optional<Graph>{};
    return std::optional<Graph>{std::move(graph_)};
  }

 private:
  static bool is_there(Value v) { return v.id >= 0; }

  template <class T>
  T keep(Result<T> result) {
    if (result.ok()) return *result;
    if (!error_) error_ = result.error();
    return {};
  }

  Value apply(const std::string& op, const std::vector<Value>& inputs, std::vector<NamedAttribute> attributes = {}) {
    if (error_) return {};
    return keep(graph_.apply(op, inputs, std::move(attributes)));
  }
  Value number(double x) { return error_ ? Value{} : keep(graph_.constant(x, DType::f64)); }
  Value cast(Value x, DType dtype) { return apply("cast", {x}, {{"dtype", dtype}}); }
  Value fold(const std::string& op, Value x) {
    return error_ ? Value{} : keep(graph_.reduce(op, x, {}, false));
  }
  Value choose(Value condition, double yes, Value no) {
    return apply("select", {condition, broadcast(number(yes), source_shape(no)), no});
  }
  std::vector<Dim> source_shape(Value built) const { return error_ ? std::vector<Dim>{} : graph_.type(built).shape; }
  Value broadcast(Value x, const std::vector<Dim>& shape) {
    if (error_ || graph_.type(x).shape == shape) return x;
    return apply("broadcast", {x}, {{"shape", shape}});
  }
  /// Sum of those that are there.
  Value sum(const std::vector<Value>& parts) {
    Value all;
    for (const Value p : parts) {
      if (is_there(p)) all = is_there(all) ? apply("add", {all, p}) : p;
    }
    return all;
  }
  /// kUnbounded where `d` is positive.
  Value unbounded(Value d) { return choose(apply("gt", {d, number(0)}), kUnbounded, apply("mul", {d, number(0)})); }

  /// The same value as in the source.
  Value value(Value v) {
    const auto known = values_.find(v.id);
    if (known != values_.end()) return known->second;
    const Node& node = source_.node(v);
    std::vector<Value> inputs;
    for (const Value i : node.inputs) inputs.push_back(value(i));
    return values_[v.id] = apply(node.op, inputs, node.attributes);
  }
  Value wide(Value v) { return cast(value(v), DType::f64); }
  Value magnitude(Value v) { return apply("abs", {wide(v)}); }

  /// How far a correct kernel's value of `v` may be from the reference, its doubt included.
  Value error(Value v) {
    const DType dtype = source_.type(v).dtype;
    const Tolerance tolerance = is_float(dtype) ? find_tolerance(source_, v, longest_) : Tolerance{};
    if (tolerance.is_exact()) return doubt(v);
    const Value size = magnitude(v);
    const Value too_large = apply("gt", {size, number(largest_of(dtype))});
    const Value finite = choose(too_large, 0, size);
    Value mean = apply("mul", {finite, finite});
    if (source_.type(v).rank() > 0) mean = fold("mean", mean);
    const Value scale = apply("add", {size, apply("sqrt", {mean})});
    const Value allowed = apply("add", {apply("mul", {scale, number(tolerance.relative)}), number(tolerance.absolute)});
    // Where the type overflows, infinities compare and round as they like.
    return sum({choose(too_large, kUnbounded, allowed), doubt(v)});
  }

  Value doubt(Value v) {
    const auto known = doubts_.find(v.id);
    if (known != doubts_.end()) return known->second;
    const Node& node = source_.node(v);
    const graph::Op* op = graph::find_op(node.op);
    Value d = op == nullptr ? Value{} : doubt_of(node, *op);
    if (is_there(d) && graph_.type(d).shape != node.type.shape)
      d = apply("add", {d, broadcast(number(0), node.type.shape)});
    return doubts_[v.id] = d;
  }

  Value doubt_of(const Node& node, const graph::Op& op) {
    using graph::OpKind;
    switch (op.kind) {
      case OpKind::source: return {};
      case OpKind::pointwise: return of_pointwise(node);
      case OpKind::view: return of_view(node);
      case OpKind::gather: return of_gather(node);
      case OpKind::reduction: return of_reduction(node);
      case OpKind::contraction: return of_product(node, "matmul");
      case OpKind::scan: return is_there(doubt(node.inputs[0])) ? same_op(node, {doubt(node.inputs[0])}) : Value{};
      case OpKind::write: return of_write(node);
    }
    return {};
  }

  /// The node's op on other operands; results keep their dtype.
  Value same_op(const Node& node, const std::vector<Value>& inputs) {
    std::vector<NamedAttribute> attributes = node.attributes;
    std::erase_if(attributes, [](const NamedAttribute& a) { return a.name == "out"; });
    return apply(node.op, inputs, attributes);
  }

  Value of_pointwise(const Node& node) {
    const std::vector<Value>& x = node.inputs;
    const bool to_integer = node.op == "cast" && !is_float(node.type.dtype) && is_float(source_.type(x[0]).dtype);
    if (kComparisons.contains(node.op)) {
      const Value allowed = sum({error(x[0]), error(x[1])});
      return is_there(allowed) ? is_near(apply("sub", {wide(x[0]), wide(x[1])}), allowed) : allowed;
    }
    if (to_integer || kSteps.contains(node.op)) return of_step(node, error(x[0]));
    if (node.op == "fmod") return of_remainder(node);
    if (node.op == "is_nan" || node.op == "is_inf") {
      const Value allowed = error(x[0]);
      if (!is_there(allowed)) return {};
      const Value most = apply("add", {magnitude(x[0]), allowed});
      return cast(apply("gt", {most, number(largest_of(source_.type(x[0]).dtype))}), DType::f64);
    }
    std::vector<Value> d;
    for (const Value i : x) d.push_back(doubt(i));
    const Value all = sum(d);
    if (!is_there(all)) return {};
    const bool is_sum = kSums.contains(node.op) && (node.type.dtype == DType::boolean || (node.op != "and" && node.op != "or" && node.op != "xor"));
    if (is_sum) return all;
    if (node.op == "mul") return of_product(node, "mul");
    if (node.op == "select") {
      if (!is_there(d[0])) return all;
      const Value apart = apply("abs", {apply("sub", {wide(x[1]), wide(x[2])})});
      return sum({apply("mul", {d[0], apart}), d[1], d[2]});
    }
    return unbounded(all);
  }

  /// 1 where |gap| <= allowed, else 0.
  Value is_near(Value gap, Value allowed) { return cast(apply("le", {apply("abs", {gap}), allowed}), DType::f64); }

  Value of_step(const Node& node, Value allowed) {
    if (!is_there(allowed)) return {};
    const Value at = wide(node.inputs[0]);
    if (node.type.dtype == DType::boolean) return is_near(at, allowed);
    const auto step = [&](const char* direction) {
      const Value moved = apply(direction, {at, allowed});
      return node.op == "cast" ? cast(cast(moved, node.type.dtype), DType::f64) : apply(node.op, {moved});
    };
    return apply("sub", {step("add"), step("sub")});
  }

  /// fmod(a, b) = a - trunc(a / b) b jumps by |b| with the quotient.
  Value of_remainder(const Node& node) {
    const Value a = node.inputs[0], b = node.inputs[1];
    const Value of_a = error(a), of_b = error(b);
    if (!is_there(of_a) && !is_there(of_b)) return {};
    const Value quotient = apply("abs", {apply("div", {wide(a), wide(b)})}), width = magnitude(b);
    const Value moved = sum({of_a, is_there(of_b) ? apply("mul", {quotient, of_b}) : of_b});
    const Value allowed = apply("div", {moved, width});
    const Value jumps = apply("sub", {apply("trunc", {apply("add", {quotient, allowed})}),
                                      apply("trunc", {apply("sub", {quotient, allowed})})});
    const Value by_b = is_there(doubt(b)) ? apply("mul", {quotient, doubt(b)}) : Value{};
    return sum({apply("mul", {jumps, width}), doubt(a), by_b});
  }

  /// |a| db + da |b| + da db, for elementwise and matrix products.
  Value of_product(const Node& node, const std::string& op) {
    const Value a = node.inputs[0], b = node.inputs[1], of_a = doubt(a), of_b = doubt(b);
    const auto product = [&](Value x, Value y) {
      if (op == "mul") return apply(op, {x, y});
      std::vector<Value> operands{x, y};
      for (std::size_t i = 2; i < node.inputs.size(); ++i) operands.push_back(value(node.inputs[i]));
      return same_op(node, operands);
    };
    std::vector<Value> parts;
    if (is_there(of_b)) parts.push_back(product(magnitude(a), of_b));
    if (is_there(of_a)) parts.push_back(product(of_a, magnitude(b)));
    if (parts.size() == 2) parts.push_back(product(of_a, of_b));
    // Which matrix a row meets.
    const Value which = node.inputs.size() > 2 ? doubt(node.inputs[2]) : Value{};
    if (is_there(which)) {
      const std::vector<Dim> column{node.type.shape[0], Dim(1)};
      parts.push_back(broadcast(apply("reshape", {unbounded(which)}, {{"shape", column}}), node.type.shape));
    }
    return sum(parts);
  }

  Value zeros_unless(Value d, Value like) {
    return is_there(d) ? d : broadcast(number(0), source_.type(like).shape);
  }

  Value of_view(const Node& node) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](Value i) { return is_there(doubt(i)); })) return {};
    std::vector<Value> d;
    for (const Value i : node.inputs) d.push_back(zeros_unless(doubt(i), i));
    return same_op(node, d);
  }

  Value of_gather(const Node& node) {
    const Value table = doubt(node.inputs[0]);
    Value place = doubt(node.inputs[1]);
    if (is_there(place)) {
      place = unbounded(place);
      // The index has the result's axes (gather), its first ones (embedding), or the one at `axis` (index_select).
      std::vector<Dim> shape = source_.type(node.inputs[1]).shape;
      std::int64_t behind = node.op == "embedding" ? node.type.rank() - static_cast<std::int64_t>(shape.size()) : 0;
      if (node.op == "index_select") {
        const graph::Call call = graph::call_of(source_, node);
        behind = node.type.rank() - 1 - call.integer("axis");
      }
      shape.insert(shape.end(), static_cast<std::size_t>(behind), Dim(1));
      place = apply("reshape", {place}, {{"shape", shape}});
    }
    return sum({is_there(table) ? same_op(node, {table, value(node.inputs[1])}) : table, place});
  }

  Value of_reduction(const Node& node) {
    const Value x = node.inputs[0];
    if (node.op == "argmax" || node.op == "argmin") return of_arg(node);
    const Value d = doubt(x);
    if (!is_there(d)) return {};
    if (node.op == "sum" || node.op == "mean" || node.op == "reduce_max" || node.op == "reduce_min") return same_op(node, {d});
    const Value most = with_op(node, "reduce_max", d);
    return node.op == "any" || node.op == "all" ? most : unbounded(most);
  }

  /// A reduction over the node's axes.
  Value with_op(const Node& node, const std::string& op, Value x, bool keep_axes = false) {
    std::vector<NamedAttribute> attributes;
    for (const NamedAttribute& a : node.attributes) {
      if (a.name == "axes" || (a.name == "keepdim" && !keep_axes)) attributes.push_back(a);
    }
    if (keep_axes) attributes.push_back({"keepdim", true});
    return apply(op, {x}, attributes);
  }

  /// In doubt where a second element may be the largest.
  Value of_arg(const Node& node) {
    const Value x = node.inputs[0], allowed = error(x);
    if (!is_there(allowed)) return {};
    const Value at = node.op == "argmin" ? apply("neg", {wide(x)}) : wide(x);
    const Value sure = with_op(node, "reduce_max", apply("sub", {at, allowed}), true);
    const Value rivals = cast(apply("ge", {apply("add", {at, allowed}), sure}), DType::f64);
    const Value others = apply("sub", {with_op(node, "sum", rivals), number(1)});
    return unbounded(others);
  }

  Value of_write(const Node& node) {
    const bool is_scatter = node.op == "scatter";
    const Value target = node.inputs[0], source = node.inputs[is_scatter ? 2 : 1], place = node.inputs[is_scatter ? 1 : 2];
    if (is_there(doubt(place))) {
      const Value some = unbounded(source_.type(place).rank() > 0 ? fold("reduce_max", doubt(place)) : doubt(place));
      return broadcast(some, node.type.shape);
    }
    if (!is_there(doubt(target)) && !is_there(doubt(source))) return {};
    const Value old = zeros_unless(doubt(target), target), fresh = zeros_unless(doubt(source), source);
    return is_scatter ? same_op(node, {old, value(place), fresh}) : same_op(node, {old, fresh, value(place)});
  }

  const Graph& source_;
  Graph graph_;
  Bindings longest_;
  std::map<std::int32_t, Value> values_, doubts_;  ///< by id in the source
  std::optional<Error> error_;
};

}  // namespace

std::string doubt_name(const std::string& tensor) { return "doubt_" + tensor; }

Result<std::optional<Graph>> make_doubt_graph(const Graph& graph) { return DoubtBuilder(graph).run(); }

Result<std::shared_ptr<const Artifact>> build_doubt(const Graph& graph, const Target& target) {
  LW_TRY(const std::optional<Graph> doubt, make_doubt_graph(graph));
  if (!doubt) return std::shared_ptr<const Artifact>{};
  LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(*doubt)));
  LW_TRY(Artifact artifact, driver::build_reference(job, target));
  return std::shared_ptr<const Artifact>(std::make_shared<Artifact>(std::move(artifact)));
}

}  // namespace loopwright::tuner
