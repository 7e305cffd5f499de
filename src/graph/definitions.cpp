#include "src/graph/definitions.h"

#include <algorithm>

namespace loopwright::graph {
using ir::Expr;
using ir::int_imm;

namespace {

Expr logical_all(const std::vector<Expr>& conditions) {
  Expr out;
  for (const Expr& c : conditions) out = out ? ir::logical_and(out, c) : c;
  return out ? out : int_imm(1, DType::boolean);
}

Expr is_within(const Expr& at, const Expr& size) {
  return ir::logical_and(ir::binary(ir::BinaryOp::ge, at, int_imm(0)), ir::lt(at, size));
}

/// Operand 0 at `index`, whose `axis` holds an integer of any size: clamped to the axis, and 0 when the axis is empty.
Expr read_clamped(const Call& call, const Read& read, Index index, std::size_t axis) {
  const Dim& size = call.operands[0].shape[axis];
  const Expr extent = call.size(size);
  index[axis] = ir::min(ir::max(ir::cast(index[axis], DType::i64), int_imm(0)), extent - int_imm(1));
  const Expr element = read(0, index);
  if (call.is_at_least(size, 1)) return element;
  return ir::select(ir::lt(int_imm(0), extent), element, ir::constant(0, call.result.dtype));
}

}  // namespace

Expr define_iota(const Call& call, const Read&, const Index& index) {
  const Expr at = index[call.integer("axis")];
  return ir::cast(at * int_imm(call.integer("step")) + int_imm(call.integer("start")), call.result.dtype);
}

// Axes are matched in runs whose products agree, so that unrelated axes keep their plain index.
Expr define_reshape(const Call& call, const Read& read, const Index& index) {
  const std::vector<Dim>&from = call.operands[0].shape, &to = call.result.shape;
  Index source(from.size());
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const std::size_t i0 = i, j0 = j;
    Dim a(1), b(1);
    if (i < from.size()) a = from[i++];
    if (j < to.size()) b = to[j++];
    // Grow the run until the products agree; the ends always do.
    while (a != b && (i < from.size() || j < to.size())) {
      const bool grow_b = i == from.size() || (j < to.size() && a.divide_exactly(b).has_value());
      if (grow_b) b = b * to[j++];
      else a = a * from[i++];
    }
    if (i - i0 == 1 && j - j0 == 1) {
      source[i0] = index[j0];
      continue;
    }
    auto is_one = [](const Dim& dim) { return dim.constant() == std::int64_t{1}; };
    Expr linear;
    for (std::size_t k = j0; k < j; ++k)
      if (!is_one(to[k])) linear = linear ? linear * call.size(to[k]) + index[k] : index[k];
    if (!linear) linear = int_imm(0);
    std::size_t top = i0;
    while (top < i && is_one(from[top])) ++top;
    for (std::size_t k = i; k-- > i0;) {
      source[k] = k == top ? linear : is_one(from[k]) ? int_imm(0) : ir::mod(linear, call.size(from[k]));
      if (k > top && !is_one(from[k])) linear = ir::floor_div(linear, call.size(from[k]));
    }
  }
  return read(0, source);
}

Expr define_permute(const Call& call, const Read& read, const Index& index) {
  const std::vector<std::int64_t>& axes = call.integers("axes");
  Index source(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) source[axes[i]] = index[i];
  return read(0, source);
}

Expr define_broadcast(const Call& call, const Read& read, const Index& index) {
  return read(0, broadcast_index(call.operands[0], call.result, index));
}

Expr define_slice(const Call& call, const Read& read, const Index& index) {
  const std::vector<std::int64_t>&axes = call.integers("axes"), &step = call.integers("step");
  Index source = index;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Expr& at = source[axes[i]];
    if (!step.empty()) at = at * int_imm(step[i]);
    if (call.dims("start")[i] != Dim(0)) at = at + call.size(call.dims("start")[i]);
  }
  return read(0, source);
}

Expr define_concat(const Call& call, const Read& read, const Index& index) {
  const auto axis = static_cast<std::size_t>(call.integer("axis"));
  std::vector<Dim> begin{Dim(0)};
  for (const TensorType& operand : call.operands) begin.push_back(begin.back() + operand.shape[axis]);
  Expr out;
  for (std::size_t i = call.operands.size(); i-- > 0;) {
    Index source = index;
    if (i > 0) source[axis] = index[axis] - call.size(begin[i]);
    const Expr element = read(static_cast<int>(i), source);
    out = out ? ir::select(ir::lt(index[axis], call.size(begin[i + 1])), element, out) : element;
  }
  return out;
}

Expr define_pad(const Call& call, const Read& read, const Index& index) {
  Index source = index;
  std::vector<Expr> inside;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const Dim &low = call.dims("low")[d], &high = call.dims("high")[d];
    if (low != Dim(0)) source[d] = index[d] - call.size(low);
    if (low != Dim(0)) inside.push_back(ir::binary(ir::BinaryOp::ge, source[d], int_imm(0)));
    if (high != Dim(0)) inside.push_back(ir::lt(source[d], call.size(call.operands[0].shape[d])));
  }
  if (inside.empty()) return read(0, source);
  return ir::select(logical_all(inside), read(0, source), read(1, {}));
}

Expr define_flip(const Call& call, const Read& read, const Index& index) {
  Index source = index;
  for (std::int64_t axis : call.integers("axes"))
    source[axis] = call.size(call.operands[0].shape[axis]) - int_imm(1) - index[axis];
  return read(0, source);
}

Expr define_gather(const Call& call, const Read& read, const Index& index) {
  Index source = index;
  const auto axis = static_cast<std::size_t>(call.integer("axis"));
  source[axis] = read(1, index);
  return read_clamped(call, read, source, axis);
}

Expr define_embedding(const Call& call, const Read& read, const Index& index) {
  const auto split = index.begin() + call.operands[1].rank();
  Index source{read(1, Index(index.begin(), split))};
  source.insert(source.end(), split, index.end());
  return read_clamped(call, read, source, 0);
}

Expr define_index_select(const Call& call, const Read& read, const Index& index) {
  Index source = index;
  const auto axis = static_cast<std::size_t>(call.integer("axis"));
  source[axis] = read(1, {index[axis]});
  return read_clamped(call, read, source, axis);
}

// ---------------------------------------------------------------- reductions

namespace {

/// The index of operand 0 from the result's and the reduced axes' indices.
Index reduced_index(const Call& call, const Index& outer, const Index& reduced) {
  const std::vector<std::int64_t>& axes = call.integers("axes");
  const bool keepdim = call.flag("keepdim");
  Index source;
  std::size_t next_outer = 0, next_reduced = 0;
  for (int d = 0; d < call.operands[0].rank(); ++d) {
    if (std::binary_search(axes.begin(), axes.end(), d)) {
      source.push_back(reduced[next_reduced++]);
      if (keepdim) ++next_outer;
    } else {
      source.push_back(outer[next_outer++]);
    }
  }
  return source;
}

ReductionParts reduction_skeleton(const Call& call, ir::Monoid monoid, std::vector<DType> state) {
  ReductionParts parts;
  parts.monoid = monoid;
  parts.state = std::move(state);
  const std::vector<std::int64_t>& axes = call.integers("axes");
  for (std::int64_t axis : axes) parts.reduced.push_back(call.operands[0].shape[axis]);
  parts.collapsed.assign(call.result.shape.size(), false);
  if (call.flag("keepdim"))
    for (std::int64_t axis : axes) parts.collapsed[axis] = true;
  return parts;
}

}  // namespace

ReductionParts reduce_axes(const Call& call, ir::Monoid monoid, DType state) {
  ReductionParts parts = reduction_skeleton(call, monoid, {state});
  parts.values = [&call, state](const Read& read, const Index& outer, const Index& reduced) {
    return std::vector<Expr>{ir::cast(read(0, reduced_index(call, outer, reduced)), state)};
  };
  return parts;
}

ReductionParts define_mean(const Call& call) {
  const DType state = accumulator(call.operands[0].dtype);
  ReductionParts parts = reduce_axes(call, ir::Monoid::sum, state);
  const Expr count = ir::cast(call.size(product(parts.reduced)), state);
  parts.finish = [count](const Read&, const Index&, const std::vector<Expr>& s) { return ir::binary(ir::BinaryOp::div, s[0], count); };
  return parts;
}

ReductionParts define_variance(const Call& call) {
  const DType state = accumulator(call.operands[0].dtype);
  ReductionParts parts = reduction_skeleton(call, ir::Monoid::welford, {state, state, state});
  parts.values = [&call, state](const Read& read, const Index& outer, const Index& reduced) {
    return std::vector<Expr>{ir::constant(1, state),
                             ir::cast(read(0, reduced_index(call, outer, reduced)), state),
                             ir::constant(0, state)};
  };
  const Expr degrees =
      ir::max(call.size(product(parts.reduced)) - int_imm(call.integer("correction")), int_imm(0));
  parts.finish = [divisor = ir::cast(degrees, state)](const Read&, const Index&, const std::vector<Expr>& s) {
    return ir::binary(ir::BinaryOp::div, s[2], divisor);
  };
  return parts;
}

/// What positions among so many elements are carried in: 32 bits where all of them fit.
DType position_type(const std::vector<Dim>& extents, const std::vector<Symbol>& symbols) {
  std::int64_t most = 1;
  for (const Dim& extent : extents) {
    const auto range = extent.bounds(symbols);
    if (!range.ok() || range->hi > INT32_MAX / std::max<std::int64_t>(most, 1)) return DType::i64;
    most *= range->hi;
  }
  return DType::i32;
}

ReductionParts define_arg_reduce(const Call& call, ir::Monoid monoid) {
  ReductionParts parts = reduction_skeleton(call, monoid, {call.operands[0].dtype, DType::i64});
  parts.state[1] = position_type(parts.reduced, *call.symbols);
  parts.values = [&call, extents = parts.reduced, position = parts.state[1]](const Read& read, const Index& outer,
                                                                             const Index& reduced) {
    Expr linear = int_imm(0);
    for (std::size_t k = 0; k < reduced.size(); ++k)
      linear = k == 0 ? reduced[k] : linear * call.size(extents[k]) + reduced[k];
    return std::vector<Expr>{read(0, reduced_index(call, outer, reduced)), ir::cast(linear, position)};
  };
  parts.finish = [](const Read&, const Index&, const std::vector<Expr>& s) { return s[1]; };
  return parts;
}

ReductionParts define_matmul(const Call& call) {
  const DType state = accumulator(call.operands[0].dtype);
  ReductionParts parts;
  parts.state = {state};
  const std::vector<Dim>& a = call.operands[0].shape;
  parts.reduced = {call.flag("transpose_a") ? a[a.size() - 2] : a.back()};
  parts.collapsed.assign(call.result.shape.size(), false);
  parts.values = [&call, state](const Read& read, const Index& outer, const Index& reduced) {
    auto element = [&](int operand, Expr row, Expr column, bool transposed) {
      const TensorType& type = call.operands[operand];
      TensorType batch{type.dtype, {type.shape.begin(), type.shape.end() - 2}, {}};
      TensorType result{type.dtype, {call.result.shape.begin(), call.result.shape.end() - 2}, {}};
      Index index = broadcast_index(batch, result, Index(outer.begin(), outer.end() - 2));
      if (transposed) std::swap(row, column);
      index.push_back(row);
      index.push_back(column);
      return ir::cast(read(operand, index), state);
    };
    return std::vector<Expr>{element(0, outer[outer.size() - 2], reduced[0], call.flag("transpose_a")) *
                             element(1, reduced[0], outer.back(), call.flag("transpose_b"))};
  };
  return parts;
}

ReductionParts define_group_of(const Call& call) {
  ReductionParts parts;
  parts.monoid = ir::Monoid::min;
  parts.state = {DType::i64};
  parts.reduced = {call.operands[0].shape[0]};
  parts.collapsed = {false};
  parts.values = [&call](const Read& read, const Index& outer, const Index& reduced) {
    const Expr end = ir::cast(read(0, reduced), DType::i64);
    return std::vector<Expr>{ir::select(ir::lt(outer[0], end), reduced[0], call.size(call.operands[0].shape[0]))};
  };
  return parts;
}

ReductionParts define_matmul_at(const Call& call) {
  const DType state = accumulator(call.operands[0].dtype);
  ReductionParts parts;
  parts.state = {state};
  parts.reduced = {call.operands[0].shape[1]};
  parts.collapsed = {false, false};
  const Expr count = call.size(call.operands[1].shape[0]);
  parts.values = [&call, state, count](const Read& read, const Index& outer, const Index& reduced) {
    const Expr which = ir::cast(read(2, {outer[0]}), DType::i64);
    Index at{ir::min(ir::max(which, int_imm(0)), count - int_imm(1)), reduced[0], outer[1]};
    if (call.flag("transpose_b")) std::swap(at[1], at[2]);
    return std::vector<Expr>{ir::cast(read(0, {outer[0], reduced[0]}), state) * ir::cast(read(1, at), state)};
  };
  parts.finish = [state, count](const Read& read, const Index& outer, const std::vector<Expr>& s) {
    const Expr which = ir::cast(read(2, {outer[0]}), DType::i64);
    return ir::select(is_within(which, count), s[0], ir::constant(0, state));
  };
  return parts;
}

// ---------------------------------------------------------------- writes

WriteParts define_scatter(const Call& call, const Read& read, const Index& index) {
  const auto axis = static_cast<std::size_t>(call.integer("axis"));
  WriteParts parts;
  parts.at = index;
  parts.at[axis] = ir::cast(read(1, index), DType::i64);
  parts.condition = is_within(parts.at[axis], call.size(call.result.shape[axis]));
  parts.value = read(2, index);
  parts.add = call.word("reduce") == "add";
  return parts;
}

WriteParts define_slice_update(const Call& call, const Read& read, const Index& index) {
  const auto axis = static_cast<std::size_t>(call.integer("axis"));
  WriteParts parts;
  parts.at = index;
  parts.at[axis] = ir::cast(read(2, {}), DType::i64) + index[axis];
  parts.condition = is_within(parts.at[axis], call.size(call.result.shape[axis]));
  parts.value = read(1, index);
  return parts;
}

}  // namespace loopwright::graph
