#include "src/graph/naive_kernel.h"

#include <algorithm>
#include <set>

#include "src/graph/ops.h"
#include "src/ir/monoid.h"

namespace loopwright::graph {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

/// The values that outputs and updates need.
std::vector<bool> find_live(const Graph& g) {
  std::vector<bool> live(g.nodes().size(), false);
  for (const Graph::Output& output : g.outputs()) live[output.value.id] = true;
  for (const Graph::Update& update : g.updates()) live[update.value.id] = true;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (Value v : g.nodes()[i].inputs) live[v.id] = true;
  return live;
}

class Builder {
 public:
  explicit Builder(const Graph& g) : g_(g), live_(find_live(g)), buffers_(g.nodes().size()) {
    kernel_.name = g.name();
    kernel_.level = ir::Level::naive;
    kernel_.accuracy = g.accuracy();
    for (const Symbol& s : g.symbols()) kernel_.symbols.push_back({s, ir::fresh_var(s.name)});
    for (const Node& node : g.nodes()) names_.insert(node.name);
  }

  Result<ir::Kernel> build() {
    make_parameters();
    for (std::size_t i = 0; i < g_.nodes().size(); ++i)
      if (live_[i] && g_.nodes()[i].op != "input") emit_node({static_cast<std::int32_t>(i)});
    emit_updates();
    Stmt body = ir::seq(std::move(body_));
    for (std::size_t i = allocated_.size(); i-- > 0;) body = ir::alloc(allocated_[i], body);
    kernel_.body = std::move(body);
    return std::move(kernel_);
  }

 private:
  // ---- buffers

  std::vector<Expr> sizes(const std::vector<Dim>& dims) const {
    std::vector<Expr> out;
    for (const Dim& dim : dims) out.push_back(ir::to_expr(dim, kernel_.symbols));
    return out;
  }

  Buffer make_buffer(const std::string& name, const TensorType& type) const {
    auto info = std::make_shared<ir::BufferInfo>();
    info->name = name;
    info->dtype = type.dtype;
    info->shape = sizes(type.shape);
    info->strides = sizes(type.strides);
    return info;
  }

  /// A new intermediate under a name that nothing else has.
  Buffer allocate(std::string name, DType dtype, const std::vector<Dim>& shape) {
    while (!names_.insert(name).second) name += "_";
    allocated_.push_back(make_buffer(name, TensorType{dtype, shape, {}}));
    return allocated_.back();
  }

  void make_parameters() {
    for (Value v : g_.inputs()) {
      const bool is_updated =
          std::any_of(g_.updates().begin(), g_.updates().end(), [&](const auto& u) { return u.input == v; });
      buffers_[v.id] = make_buffer(g_.node(v).name, g_.type(v));
      kernel_.params.push_back({buffers_[v.id], is_updated ? ArgRole::inout : ArgRole::input});
    }
    for (const Graph::Output& output : g_.outputs()) {
      buffers_[output.value.id] = make_buffer(output.name, g_.type(output.value));
      kernel_.params.push_back({buffers_[output.value.id], ArgRole::output});
    }
    for (std::size_t i = 0; i < g_.updates().size(); ++i) {
      const Graph::Update& update = g_.updates()[i];
      if (!is_written_in_place(g_, update) || buffers_[update.value.id]) continue;
      buffers_[update.value.id] = buffers_[update.input.id];
      done_updates_.insert(i);
    }
  }

  const Buffer& target_of(Value v) {
    if (!buffers_[v.id]) {
      allocated_.push_back(make_buffer(g_.node(v).name, g_.type(v)));
      buffers_[v.id] = allocated_.back();
    }
    return buffers_[v.id];
  }

  // ---- nests

  /// Loops `<prefix>_<axis>` over `extents` in order around `body(index)`; collapsed axes get index 0 and no loop.
  Stmt nest(const std::string& prefix, const std::vector<Dim>& extents, const std::vector<bool>& collapsed,
            const std::function<Stmt(const Index&)>& body) const {
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < extents.size(); ++d) order.push_back(d);
    return ordered_nest(prefix, extents, collapsed, order, body);
  }

  Stmt ordered_nest(const std::string& prefix, const std::vector<Dim>& extents,
                    const std::vector<bool>& collapsed, const std::vector<std::size_t>& order,
                    const std::function<Stmt(const Index&)>& body) const {
    Index index(extents.size());
    std::vector<ir::Var> vars(extents.size());
    auto has_loop = [&](std::size_t d) { return collapsed.empty() || !collapsed[d]; };
    for (std::size_t d : order) {
      if (has_loop(d)) vars[d] = ir::fresh_var(prefix + "_" + std::to_string(d));
      index[d] = has_loop(d) ? ir::var(vars[d]) : ir::int_imm(0);
    }
    Stmt out = body(index);
    for (std::size_t i = order.size(); i-- > 0;)
      if (has_loop(order[i]))
        out = ir::loop(vars[order[i]], ir::to_expr(extents[order[i]], kernel_.symbols), out);
    return out;
  }

  Stmt copy_nest(const std::string& prefix, const Buffer& to, const Buffer& from,
                 const std::vector<Dim>& shape) const {
    return nest(prefix, shape, {},
                [&](const Index& at) { return ir::store(to, at, ir::cast(ir::load(from, at), to->dtype)); });
  }

  // ---- nodes

  Call make_call_of(const Node& node) const {
    Call call = call_of(g_, node);
    call.variables = &kernel_.symbols;
    return call;
  }

  /// Constants are written where they are used; everything else is loaded from its buffer.
  Read reader_of(const Node& node) const {
    return [this, &node](int operand, const Index& index) -> Expr {
      const Value v = node.inputs[operand];
      const Node& source = g_.node(v);
      if (source.op == "constant") return constant_of(source);
      return ir::load(buffers_[v.id], index);
    };
  }

  Expr constant_of(const Node& node) const {
    const Call call = make_call_of(node);
    return std::get<Indexed>(call.op->definition).value(call, nullptr, {});
  }

  void emit_node(Value v) {
    const Node& node = g_.node(v);
    const bool needs_memory = node.op != "constant" || buffers_[v.id];
    if (!needs_memory) return;
    const Call call = make_call_of(node);
    const Read read = reader_of(node);
    const bool in_place = buffers_[v.id] && buffers_[v.id]->name != node.name;
    const Buffer target = target_of(v);
    std::visit(ir::on{[&](const Pointwise& d) { emit_pointwise(d, call, read, target); },
                      [&](const Indexed& d) {
                        body_.push_back(nest(target->name, call.result.shape, {}, [&](const Index& at) {
                          return ir::store(target, at, d.value(call, read, at));
                        }));
                      },
                      [&](const Reduction& d) { emit_reduction(d, call, read, target); },
                      [&](const Scan&) { emit_scan(call, read, target); },
                      [&](const Write& d) { emit_write(d, call, read, target, in_place); }},
               call.op->definition);
  }

  void emit_pointwise(const Pointwise& definition, const Call& call, const Read& read, const Buffer& target) {
    body_.push_back(nest(target->name, call.result.shape, {}, [&](const Index& at) {
      std::vector<Expr> operands;
      for (std::size_t i = 0; i < call.operands.size(); ++i)
        operands.push_back(read(static_cast<int>(i), broadcast_index(call.operands[i], call.result, at)));
      return ir::store(target, at, definition.value(call, operands));
    }));
  }

  void emit_reduction(const Reduction& definition, const Call& call, const Read& read, const Buffer& target) {
    const ReductionParts parts = definition.parts(call);
    const std::vector<Dim>& shape = call.result.shape;
    const bool direct = parts.state.size() == 1 && !parts.finish && parts.state[0] == call.result.dtype;
    std::vector<Buffer> state{target};
    const std::string prefix = direct ? target->name : target->name + "_acc";
    if (!direct) {
      state.clear();
      for (std::size_t i = 0; i < parts.state.size(); ++i)
        state.push_back(
            allocate(parts.state.size() == 1 ? prefix : prefix + std::to_string(i), parts.state[i], shape));
    }
    const std::vector<Expr> identity = ir::identity(parts.monoid, parts.state);
    body_.push_back(nest(prefix + "_init", shape, parts.collapsed, [&](const Index& at) {
      std::vector<Stmt> stores;
      for (std::size_t i = 0; i < state.size(); ++i) stores.push_back(ir::store(state[i], at, identity[i]));
      return ir::seq(std::move(stores));
    }));
    body_.push_back(nest(prefix, shape, parts.collapsed, [&](const Index& at) {
      return nest(prefix + "_r", parts.reduced, at, parts, read, state);
    }));
    if (direct) return;
    body_.push_back(nest(target->name, shape, parts.collapsed, [&](const Index& at) {
      std::vector<Expr> values;
      for (const Buffer& buffer : state) values.push_back(ir::load(buffer, at));
      return ir::store(target, at, ir::cast(parts.finish ? parts.finish(read, at, values) : values[0], target->dtype));
    }));
  }

  /// The reduced axes: loops `<prefix><k>` around one update of the state at `outer`.
  Stmt nest(const std::string& prefix, const std::vector<Dim>& reduced, const Index& outer,
            const ReductionParts& parts, const Read& read, const std::vector<Buffer>& state) const {
    Index inner;
    std::vector<ir::Var> vars;
    for (std::size_t k = 0; k < reduced.size(); ++k) {
      vars.push_back(ir::fresh_var(prefix + std::to_string(k)));
      inner.push_back(ir::var(vars[k]));
    }
    Stmt out = ir::update(parts.monoid, state, outer, parts.values(read, outer, inner));
    for (std::size_t k = reduced.size(); k-- > 0;)
      out = ir::loop(vars[k], ir::to_expr(reduced[k], kernel_.symbols), out);
    return out;
  }

  void emit_scan(const Call& call, const Read& read, const Buffer& target) {
    const std::vector<Dim>& shape = call.result.shape;
    const auto axis = static_cast<std::size_t>(call.integer("axis"));
    const DType carried = accumulator(call.operands[0].dtype);
    const Buffer sums = carried == target->dtype ? target : allocate(target->name + "_acc", carried, shape);
    std::vector<std::size_t> order;  // the running axis innermost, so that the other loops are free
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != axis) order.push_back(d);
    order.push_back(axis);
    body_.push_back(ordered_nest(sums->name, shape, {}, order, [&](const Index& at) {
      Index before = at;
      before[axis] = at[axis] - ir::int_imm(1);
      const Expr is_first = ir::binary(ir::BinaryOp::eq, at[axis], ir::int_imm(0));
      const Expr previous = ir::select(is_first, ir::constant(0, carried), ir::load(sums, before));
      return ir::store(sums, at, previous + ir::cast(read(0, at), carried));
    }));
    if (sums != target) body_.push_back(copy_nest(target->name, target, sums, shape));
  }

  void emit_write(const Write& definition, const Call& call, const Read& read, const Buffer& target,
                  bool in_place) {
    const std::vector<Dim>& shape = call.result.shape;
    // Additions of 16-bit floats and small integers are carried in their accumulator.
    const bool adds = call.has("reduce") && call.word("reduce") == "add";
    const DType carried = adds ? carried_in_write(call.result.dtype) : call.result.dtype;
    const Buffer sums = carried == target->dtype ? target : allocate(target->name + "_acc", carried, shape);
    if (!in_place)
      body_.push_back(nest(sums->name + "_init", shape, {}, [&](const Index& at) {
        return ir::store(sums, at, ir::cast(read(0, at), carried));
      }));
    body_.push_back(nest(sums->name, call.operands[definition.domain].shape, {}, [&](const Index& at) {
      const WriteParts parts = definition.parts(call, read, at);
      const Expr value = ir::cast(parts.value, carried);
      return ir::if_then(parts.condition, parts.add ? ir::update(ir::Monoid::sum, {sums}, parts.at, {value})
                                                    : ir::store(sums, parts.at, value));
    }));
    if (sums != target) body_.push_back(copy_nest(target->name, target, sums, shape));
  }

  // ---- updates

  /// After all reads; no value of an update is an input, so no copy reads what another has written.
  void emit_updates() {
    for (std::size_t i = 0; i < g_.updates().size(); ++i) {
      if (done_updates_.contains(i)) continue;
      const auto& [input, value] = g_.updates()[i];
      const Buffer& to = buffers_[input.id];
      if (g_.node(value).op == "constant") body_.push_back(ir::store(to, {}, constant_of(g_.node(value))));
      else body_.push_back(copy_nest(to->name + "_update", to, buffers_[value.id], g_.type(value).shape));
    }
  }

  const Graph& g_;
  std::vector<bool> live_;
  std::vector<Buffer> buffers_;  ///< by node; null until it has memory
  ir::Kernel kernel_;
  std::vector<Buffer> allocated_;
  std::vector<Stmt> body_;
  std::set<std::string> names_;
  std::set<std::size_t> done_updates_;  ///< positions of updates that happen in place
};

}  // namespace

DType carried_in_write(DType dtype) { return is_float(dtype) ? accumulator(dtype) : dtype; }

bool is_written_in_place(const Graph& g, const Graph::Update& update) {
  const Node& node = g.node(update.value);
  const Op* op = find_op(node.op);
  if (!op || op->kind != OpKind::write || node.inputs[0] != update.input) return false;
  for (const NamedAttribute& attribute : node.attributes)
    if (attribute.value == Attribute(std::string("add")) &&
        carried_in_write(node.type.dtype) != node.type.dtype)
      return false;
  for (const Graph::Output& output : g.outputs())
    if (output.value == update.value) return false;
  // Nobody else may want the old contents.
  int uses = 0;
  for (const Node& other : g.nodes())
    uses += static_cast<int>(std::count(other.inputs.begin(), other.inputs.end(), update.input));
  for (const Graph::Update& other : g.updates()) uses += other.value == update.input;
  return uses == 1;
}

Result<ir::Kernel> naive_kernel(const Graph& group) { return Builder(group).build(); }

}  // namespace loopwright::graph
