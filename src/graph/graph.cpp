// Implements include/loopwright/graph.h: the builder.
#include "loopwright/graph.h"

#include <algorithm>

#include "src/graph/composites.h"
#include "src/graph/ops.h"
#include "src/graph/text_format.h"
#include "src/support/read_file.h"
#include "src/support/text.h"

namespace loopwright {

using graph::Call;
using graph::Op;

std::string TensorType::text() const {
  auto list = [](const std::vector<Dim>& dims) {
    std::string out = "[";
    for (std::size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + dims[i].text();
    return out + "]";
  };
  std::string out = std::string(loopwright::name(dtype)) + list(shape);
  if (!strides.empty()) out += " strides " + list(strides);
  return out;
}

Graph::Graph(std::string name) : name_(std::move(name)) {
  if (graph::is_name(name_)) return;
  name_ = "graph_" + name_.substr(0, 200);
  for (char& c : name_)
    if (!text::is_identifier(std::string("_") + c) || c == '.') c = '_';
}

const Node& Graph::node(Value v) const {
  LW_BUG_IF(v.id < 0 || v.id >= static_cast<std::int32_t>(nodes_.size()),
            "value " + std::to_string(v.id) + " is not of this graph");
  return nodes_[v.id];
}

std::vector<Value> Graph::inputs() const {
  std::vector<Value> out;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].op == "input") out.push_back({static_cast<std::int32_t>(i)});
  return out;
}

std::optional<Value> Graph::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

Status Graph::check_name(const std::string& name, const std::string& asked) const {
  if (!graph::is_name(name))
    return Error{ErrorCode::syntax, asked, "name `" + name.substr(0, 64) + "`", "",
                 "letters, digits and _, no digit first, and no word of the text format"};
  const bool is_symbol =
      std::any_of(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == name; });
  auto taken = by_name_.find(name);
  if (is_symbol || (taken != by_name_.end() && !made_up_.contains(taken->second.id)))
    return Error{ErrorCode::duplicate_name, asked,
                 "`" + name + "` is " + (is_symbol ? "a symbol" : "a value") + " already", "",
                 "a name that is not used yet"};
  return Unit{};
}

Result<Dim> Graph::symbol(const std::string& name, std::int64_t lo, std::int64_t hi) {
  const std::string asked = "symbol " + name + " in " + std::to_string(lo) + ".." + std::to_string(hi);
  LW_CHECK(check_name(name, asked));
  if (lo < 0 || hi < lo)
    return Error{ErrorCode::bad_symbol, asked, "an empty or negative range", "", "0 <= lo <= hi"};
  symbols_.push_back({name, lo, hi});
  if (auto taken = by_name_.find(name); taken != by_name_.end()) {
    const Value other = taken->second;
    by_name_.erase(taken);
    nodes_[other.id].name = make_up_name(nodes_.size());
    by_name_[nodes_[other.id].name] = other;
  }
  return Dim(symbols_.back());
}

std::string Graph::make_up_name(std::size_t number) const {
  const auto is_taken = [&](const std::string& name) {
    return by_name_.contains(name) ||
           std::any_of(symbols_.begin(), symbols_.end(), [&](const Symbol& s) { return s.name == name; });
  };
  std::string name;
  do name = "t" + std::to_string(number++);
  while (is_taken(name));
  return name;
}

void Graph::claim_name(const std::string& name, Value v) {
  auto taken = by_name_.find(name);
  if (taken != by_name_.end()) {  // a made-up name gives way to a chosen one
    const Value other = taken->second;
    by_name_.erase(taken);
    by_name_[name] = v;
    nodes_[other.id].name = make_up_name(nodes_.size());
    by_name_[nodes_[other.id].name] = other;
  }
  by_name_[name] = v;
}

Result<Value> Graph::add_node(Node node) {
  const Value v{static_cast<std::int32_t>(nodes_.size())};
  if (node.name.empty()) {
    node.name = make_up_name(nodes_.size());
    made_up_.insert(v.id);
  }
  claim_name(node.name, v);
  nodes_.push_back(std::move(node));
  return v;
}

namespace {

Error bad_strides(const std::string& asked, std::string found, std::string works) {
  return Error{ErrorCode::bad_strides, asked, std::move(found), "", std::move(works)};
}

/// Sizes and strides may not be negative, and the furthest element's byte must have a 63-bit offset.
Status check_input_type(const TensorType& type, const std::vector<Symbol>& symbols,
                        const std::string& asked) {
  if (type.rank() > graph::kMaxRank)
    return Error{ErrorCode::shape_mismatch, asked, "rank " + std::to_string(type.rank()), "",
                 "rank at most " + std::to_string(graph::kMaxRank)};
  if (!type.strides.empty() && type.strides.size() != type.shape.size())
    return bad_strides(
        asked, std::to_string(type.strides.size()) + " strides for rank " + std::to_string(type.rank()),
        "one stride for each axis");
  LW_CHECK(graph::check_size(type, symbols, asked));
  LW_CHECK(graph::check_size(TensorType{DType::i8, type.strides, {}}, symbols, asked).ok() ||
                   type.strides.empty()
               ? Status(Unit{})
               : Status(bad_strides(asked, "strides that are too large", "strides that fit 63 bits")));
  std::int64_t reach = size_bytes(type.dtype);
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    LW_TRY(Dim::Bounds size, type.shape[d].bounds(symbols));
    if (size.lo < 0)
      return Error{ErrorCode::shape_mismatch, asked, "size " + type.shape[d].text() + " may be negative", "",
                   "sizes of at least 0 for every value of the symbols"};
    if (type.strides.empty()) continue;
    LW_TRY(Dim::Bounds stride, type.strides[d].bounds(symbols));
    if (stride.lo < 0)
      return bad_strides(asked, "stride " + type.strides[d].text() + " may be negative",
                         "strides of at least 0");
    std::int64_t step = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(size.hi - 1, 0), stride.hi, &step) ||
        __builtin_mul_overflow(step, size_bytes(type.dtype), &step) ||
        __builtin_add_overflow(reach, step, &reach))
      return Error{ErrorCode::size_overflow, asked, "the furthest element lies beyond 63 bits", "",
                   "smaller sizes, strides or symbol ranges"};
  }
  return Unit{};
}

/// True when no two indices of the tensor can be one address, for all values of the symbols.
bool is_surely_injective(const TensorType& type, const std::vector<Symbol>& symbols) {
  if (type.strides.empty()) return true;
  struct Axis {
    Dim::Bounds size, stride;
    std::size_t position;
  };
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    Result<Dim::Bounds> size = type.shape[d].bounds(symbols), stride = type.strides[d].bounds(symbols);
    if (!size.ok() || !stride.ok()) return false;
    if (size->hi > 1) axes.push_back({*size, *stride, d});
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::pair(a.stride.lo, a.stride.hi) < std::pair(b.stride.lo, b.stride.hi);
  });
  Dim span(1);  // symbolic: one past the largest offset of the axes so far
  for (const Axis& axis : axes) {
    const Dim& stride = type.strides[axis.position];
    Result<Dim::Bounds> slack = (stride - span).bounds(symbols);
    if (!slack.ok() || slack->lo < 0) return false;
    span = span + (type.shape[axis.position] - Dim(1)) * stride;
  }
  return true;
}

}  // namespace

Result<Value> Graph::input(const std::string& name, TensorType type) {
  const std::string asked = "input " + name + ": " + type.text();
  LW_CHECK(check_name(name, asked));
  LW_CHECK(check_input_type(type, symbols_, asked));
  Node node;
  node.op = "input";
  node.name = name;
  node.type = std::move(type);
  return add_node(std::move(node));
}

Result<Value> Graph::apply(const std::string& op, const std::vector<Value>& inputs,
                           std::vector<NamedAttribute> attributes, const std::string& name) {
  if (!name.empty()) LW_CHECK(check_name(name, name + " = " + op + "(...)"));
  const Op* row = graph::find_op(op);
  if (!row) {
    if (const graph::Composite* composite = graph::find_composite(op))
      return graph::expand_composite(*this, *composite, inputs, attributes, name);
    return Error{ErrorCode::unknown_op, op.substr(0, 64) + "(...)",
                 "no op of this name" + graph::suggestion(op, graph::callable_names()), "",
                 "an op of docs/lw.md"};
  }
  LW_TRY(Call call, graph::make_call(*this, *row, inputs, attributes));
  Node node;
  node.op = op;
  node.inputs = inputs;
  node.name = name;
  for (auto& [key, value] : call.attributes) {
    const graph::AttributeSpec* spec = row->signature.attribute(key);
    if (!spec->fallback || *spec->fallback != value) node.attributes.push_back({key, std::move(value)});
  }
  node.type = std::move(call.result);
  return add_node(std::move(node));
}

Result<Value> Graph::constant(double value, DType dtype) {
  return apply("constant", {}, {{"value", value}, {"dtype", dtype}});
}
Result<Value> Graph::cast(Value x, DType dtype) { return apply("cast", {x}, {{"dtype", dtype}}); }
Result<Value> Graph::binary(const std::string& op, Value a, Value b) { return apply(op, {a, b}); }
Result<Value> Graph::unary(const std::string& op, Value x) { return apply(op, {x}); }
Result<Value> Graph::reduce(const std::string& op, Value x, std::vector<std::int64_t> axes, bool keepdim) {
  const std::string row = op == "max" || op == "min" ? "reduce_" + op : op;
  return apply(row, {x}, {{"axes", std::move(axes)}, {"keepdim", keepdim}});
}
Result<Value> Graph::matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  return apply("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}
Result<Value> Graph::linear(Value x, Value weight, Value bias) { return apply("linear", {x, weight, bias}); }
Result<Value> Graph::softmax(Value x, std::int64_t axis) { return apply("softmax", {x}, {{"axis", axis}}); }
Result<Value> Graph::log_softmax(Value x, std::int64_t axis) {
  return apply("log_softmax", {x}, {{"axis", axis}});
}
Result<Value> Graph::layer_norm(Value x, Value weight, Value bias, double eps) {
  return apply("layer_norm", {x, weight, bias}, {{"eps", eps}});
}
Result<Value> Graph::rms_norm(Value x, Value weight, double eps) {
  return apply("rms_norm", {x, weight}, {{"eps", eps}});
}
Result<Value> Graph::gelu(Value x, bool tanh_approximation) {
  return apply(tanh_approximation ? "gelu_tanh" : "gelu", {x});
}
Result<Value> Graph::silu(Value x) { return apply("silu", {x}); }

Status Graph::output(const std::string& name, Value value) {
  const std::string asked = "output " + name;
  const Node& source = node(value);
  if (source.name == name && source.op == "input")
    return Error{ErrorCode::duplicate_name, asked, "`" + name + "` is an input, and an output is a tensor of its own", "",
                 "another name for the copy, as in `output " + name + "_copy = " + name + "`"};
  if (source.name == name) {
    for (const Output& other : outputs_)
      if (other.name == name)
        return Error{ErrorCode::duplicate_name, asked, "`" + name + "` is an output already", "",
                     "each output once"};
    made_up_.erase(value.id);
    outputs_.push_back({name, value});
    return Unit{};
  }
  LW_CHECK(check_name(name, asked));
  if (made_up_.erase(value.id) > 0) {
    by_name_.erase(source.name);
    claim_name(name, value);
    nodes_[value.id].name = name;
    outputs_.push_back({name, value});
    return Unit{};
  }
  LW_TRY(Value copied, apply("copy", {value}, {}, name));
  outputs_.push_back({name, copied});
  return Unit{};
}

Status Graph::update(Value input, Value value) {
  const Node target = node(input), source = node(value);
  const std::string asked = "update " + target.name + " = " + source.name;
  if (target.op != "input")
    return Error{ErrorCode::unknown_name, asked, "`" + target.name + "` is no input", "",
                 "an input of the graph"};
  for (const Update& other : updates_)
    if (other.input == input)
      return Error{ErrorCode::duplicate_name, asked, "`" + target.name + "` is updated already", "",
                   "one update for each input"};
  if (target.type.dtype != source.type.dtype)
    return Error{ErrorCode::dtype_mismatch, asked, target.type.text() + " and " + source.type.text(), "",
                 "equal dtypes"};
  if (target.type.shape != source.type.shape)
    return Error{ErrorCode::shape_mismatch, asked, target.type.text() + " and " + source.type.text(), "",
                 "equal shapes"};
  if (!is_surely_injective(target.type, symbols_))
    return bad_strides(asked, "`" + target.name + "` may overlap itself: " + target.type.text(),
                       "an input whose elements have different addresses");
  if (source.op == "input") {
    LW_TRY(value, apply("copy", {value}));  // a value of its own, so that updates may swap inputs
  }
  updates_.push_back({input, value});
  return Unit{};
}

std::string Graph::text() const { return graph::print_graph(*this); }

Result<Graph> Graph::parse(std::string_view text, const std::string& file) {
  return graph::parse_graph(text, file);
}

Result<Graph> Graph::load(const std::string& path) {
  LW_TRY(const std::string text, read_file(path, graph::kMaxTextBytes));
  return parse(text, path);
}

}  // namespace loopwright
