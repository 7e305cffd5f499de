#include "src/graph/shape_rules.h"

#include <algorithm>

namespace loopwright::graph {
namespace {

std::string list_text(const std::vector<Dim>& dims) {
  std::string out = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + dims[i].text();
  return out + "]";
}

Result<std::int64_t> front_axis(const Call& call, std::int64_t axis, int rank, std::string_view attribute) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  return call.error(
      ErrorCode::bad_attribute,
      std::string(attribute) + " " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank),
      rank == 0 ? "a tensor with at least one axis"
                : "an axis from " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
}

/// Counts `axes` from the front, sorts them, and refuses repetitions.
Result<std::vector<std::int64_t>> front_axes(const Call& call, std::vector<std::int64_t> axes, int rank) {
  for (std::int64_t& axis : axes) {
    LW_TRY(axis, front_axis(call, axis, rank, "axis"));
  }
  std::sort(axes.begin(), axes.end());
  if (auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end())
    return call.error(ErrorCode::bad_attribute, "axis " + std::to_string(*twice) + " twice",
                      "each axis once");
  return axes;
}

Status need_rank(const Call& call, int operand, int least, int most, const std::string& what) {
  int rank = call.operands[operand].rank();
  if (rank >= least && rank <= most) return Unit{};
  return call.error(ErrorCode::shape_mismatch,
                    "`" + call.names[operand] + "` of rank " + std::to_string(rank), what);
}

Status need_equal(const Call& call, const Dim& a, const Dim& b, const std::string& what) {
  if (a == b) return Unit{};
  return call.error(ErrorCode::shape_mismatch, what + ": " + a.text() + " and " + b.text(), "equal sizes");
}

bool is_one(const Dim& dim) { return dim.constant() == std::int64_t{1}; }

Result<std::vector<Dim>> broadcast_two(const Call& call, const std::vector<Dim>& a,
                                       const std::vector<Dim>& b) {
  std::vector<Dim> out(std::max(a.size(), b.size()));
  for (std::size_t back = 1; back <= out.size(); ++back) {
    const Dim x = back <= a.size() ? a[a.size() - back] : Dim(1);
    const Dim y = back <= b.size() ? b[b.size() - back] : Dim(1);
    if (x != y && !is_one(x) && !is_one(y))
      return call.error(ErrorCode::shape_mismatch,
                        "shapes " + list_text(a) + " and " + list_text(b) + " differ in axis -" +
                            std::to_string(back) + ": " + x.text() + " and " + y.text(),
                        "sizes that are equal, or 1 on one side");
    out[out.size() - back] = is_one(x) ? y : x;
  }
  return out;
}

Status check_dims(const Call& call, const std::vector<Dim>& dims, std::string_view attribute) {
  for (const Dim& dim : dims) {
    LW_CHECK(check_size(TensorType{DType::i8, {dim}, {}}, *call.symbols, call.text()));
    if (!call.is_at_least(dim, 0))
      return call.error(ErrorCode::bad_attribute,
                        std::string(attribute) + " " + dim.text() + ", which may be negative",
                        "sizes of at least 0 for every value of the symbols");
  }
  return Unit{};
}

}  // namespace

Status broadcast_shapes(Call& call) {
  std::vector<Dim> shape;
  for (const TensorType& operand : call.operands) {
    LW_TRY(shape, broadcast_two(call, shape, operand.shape));
  }
  call.result.shape = std::move(shape);
  return Unit{};
}

Status scalar_shape(Call& call) {
  call.result.shape.clear();
  return Unit{};
}

Status attribute_shape(Call& call) {
  const std::vector<Dim>& shape = call.dims("shape");
  LW_CHECK(check_dims(call, shape, "shape"));
  if (call.has("axis")) {
    LW_TRY(std::int64_t axis, front_axis(call, call.integer("axis"), static_cast<int>(shape.size()), "axis"));
    call.attributes["axis"] = axis;
  }
  call.result.shape = call.dims("shape");
  return Unit{};
}

Status reshape_shape(Call& call) {
  std::vector<Dim> shape = call.dims("shape");
  const std::vector<Dim>& from = call.operands[0].shape;
  auto hole = std::find(shape.begin(), shape.end(), Dim(-1));
  if (hole != shape.end()) {
    *hole = Dim(1);
    if (std::find(shape.begin(), shape.end(), Dim(-1)) != shape.end())
      return call.error(ErrorCode::bad_attribute, "-1 twice in shape", "at most one size of -1");
    std::optional<Dim> rest = product(from).divide_exactly(product(shape));
    if (!rest)
      return call.error(
          ErrorCode::shape_mismatch,
          product(from).text() + " elements are not known to be a multiple of " + product(shape).text(),
          "sizes whose product divides the number of elements");
    *hole = *rest;
  }
  LW_CHECK(check_dims(call, shape, "shape"));
  if (product(shape).overflowed() || product(shape) != product(from))
    return call.error(ErrorCode::shape_mismatch,
                      product(from).text() + " elements cannot become " + product(shape).text() + " elements",
                      "a shape with the same number of elements");
  call.attributes["shape"] = shape;
  call.result.shape = std::move(shape);
  return Unit{};
}

Status permute_shape(Call& call) {
  std::vector<std::int64_t> axes = call.integers("axes");
  const int rank = call.operands[0].rank();
  for (std::int64_t& axis : axes) {
    LW_TRY(axis, front_axis(call, axis, rank, "axis"));
  }
  LW_TRY([[maybe_unused]] auto each_once, front_axes(call, axes, rank));
  if (static_cast<int>(axes.size()) != rank)
    return call.error(ErrorCode::bad_attribute,
                      std::to_string(axes.size()) + " axes for rank " + std::to_string(rank),
                      "each axis once");
  call.result.shape.clear();
  for (std::int64_t axis : axes) call.result.shape.push_back(call.operands[0].shape[axis]);
  call.attributes["axes"] = axes;
  return Unit{};
}

Status broadcast_to_shape(Call& call) {
  const std::vector<Dim>& shape = call.dims("shape");
  LW_CHECK(check_dims(call, shape, "shape"));
  LW_TRY(std::vector<Dim> joined, broadcast_two(call, call.operands[0].shape, shape));
  if (joined != shape)
    return call.error(
        ErrorCode::shape_mismatch,
        "shape " + list_text(call.operands[0].shape) + " does not broadcast to " + list_text(shape),
        "a target with at least the same axes, where only sizes of 1 grow");
  call.result.shape = std::move(joined);
  return Unit{};
}

namespace {
/// Extent of start..stop by step; empty when it is no polynomial.
std::optional<Dim> steps_between(const Dim& start, const Dim& stop, std::int64_t step) {
  const Dim length = stop - start;
  if (step == 1) return length;
  if (auto fixed = length.constant()) return Dim((*fixed + step - 1) / step);
  return length.divide_exactly(Dim(step));
}

/// A constant below zero counts from the end.
Dim from_end(const Dim& at, const Dim& size) {
  auto fixed = at.constant();
  return fixed && *fixed < 0 ? size + at : at;
}
}  // namespace

Status slice_shape(Call& call) {
  const std::vector<std::int64_t> given = call.integers("axes");
  std::vector<Dim> start = call.dims("start"), stop = call.dims("stop");
  std::vector<std::int64_t> step = call.integers("step");
  if (step.empty()) step.assign(given.size(), 1);
  if (start.size() != given.size() || stop.size() != given.size() || step.size() != given.size())
    return call.error(ErrorCode::bad_attribute,
                      std::to_string(given.size()) + " axes, " + std::to_string(start.size()) + " start, " +
                          std::to_string(stop.size()) + " stop, " + std::to_string(step.size()) + " step",
                      "one start, stop and step for each axis");
  LW_TRY(std::vector<std::int64_t> sorted, front_axes(call, given, call.operands[0].rank()));
  std::vector<Dim> shape = call.operands[0].shape, sorted_start, sorted_stop;
  std::vector<std::int64_t> sorted_step;
  const int rank = call.operands[0].rank();
  for (std::int64_t axis : sorted) {
    auto position = std::find_if(given.begin(), given.end(),
                                 [&](std::int64_t a) { return (a < 0 ? a + rank : a) == axis; }) -
                    given.begin();
    const Dim size = shape[axis], from = from_end(start[position], size), to = from_end(stop[position], size);
    const std::int64_t by = step[position];
    if (by < 1)
      return call.error(ErrorCode::bad_attribute, "step " + std::to_string(by),
                        "a step of at least 1; flip turns an axis");
    if (!call.is_at_least(from, 0) || !call.is_at_least(to - from, 0) || !call.is_at_least(size - to, 0))
      return call.error(ErrorCode::bad_attribute,
                        "axis " + std::to_string(axis) + ": " + from.text() + " to " + to.text() +
                            " of size " + size.text(),
                        "0 <= start <= stop <= size for every value of the symbols");
    std::optional<Dim> extent = steps_between(from, to, by);
    if (!extent)
      return call.error(ErrorCode::bad_attribute,
                        "step " + std::to_string(by) + " does not divide the length " + (to - from).text(),
                        "a length that is a number or a multiple of the step");
    shape[axis] = *extent;
    sorted_start.push_back(from);
    sorted_stop.push_back(to);
    sorted_step.push_back(by);
  }
  if (std::all_of(sorted_step.begin(), sorted_step.end(), [](std::int64_t by) { return by == 1; }))
    sorted_step.clear();
  call.attributes["axes"] = sorted;
  call.attributes["start"] = sorted_start;
  call.attributes["stop"] = sorted_stop;
  call.attributes["step"] = sorted_step;
  call.result.shape = std::move(shape);
  return Unit{};
}

Status concat_shape(Call& call) {
  LW_TRY(std::int64_t axis, front_axis(call, call.integer("axis"), call.operands[0].rank(), "axis"));
  std::vector<Dim> shape = call.operands[0].shape;
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    const std::vector<Dim>& other = call.operands[i].shape;
    if (other.size() != shape.size())
      return call.error(ErrorCode::shape_mismatch,
                        "ranks " + std::to_string(shape.size()) + " and " + std::to_string(other.size()),
                        "equal ranks");
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<std::int64_t>(d) == axis) shape[d] = shape[d] + other[d];
      else
        LW_CHECK(need_equal(call, shape[d], other[d],
                            "axis " + std::to_string(d) + " of `" + call.names[i] + "`"));
    }
  }
  call.attributes["axis"] = axis;
  call.result.shape = std::move(shape);
  return Unit{};
}

Status pad_shape(Call& call) {
  const std::vector<Dim>&low = call.dims("low"), &high = call.dims("high");
  std::vector<Dim> shape = call.operands[0].shape;
  LW_CHECK(need_rank(call, 1, 0, 0, "a scalar to pad with"));
  if (low.size() != shape.size() || high.size() != shape.size())
    return call.error(ErrorCode::bad_attribute,
                      std::to_string(low.size()) + " low and " + std::to_string(high.size()) +
                          " high for rank " + std::to_string(shape.size()),
                      "one low and one high for each axis");
  LW_CHECK(check_dims(call, low, "low"));
  LW_CHECK(check_dims(call, high, "high"));
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = low[d] + shape[d] + high[d];
  call.result.shape = std::move(shape);
  return Unit{};
}

Status same_shape_axes(Call& call) {
  const int rank = call.operands[0].rank();
  if (call.has("axes")) {
    LW_TRY(std::vector<std::int64_t> axes, front_axes(call, call.integers("axes"), rank));
    call.attributes["axes"] = axes;
  }
  if (call.has("axis")) {
    LW_TRY(std::int64_t axis, front_axis(call, call.integer("axis"), rank, "axis"));
    call.attributes["axis"] = axis;
  }
  call.result.shape = call.operands[0].shape;
  return Unit{};
}

Status reduce_shape(Call& call) {
  const std::vector<Dim>& shape = call.operands[0].shape;
  std::vector<std::int64_t> axes = call.integers("axes");
  if (axes.empty())
    for (std::size_t d = 0; d < shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  LW_TRY(axes, front_axes(call, axes, call.operands[0].rank()));
  call.result.shape.clear();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(d)))
      call.result.shape.push_back(shape[d]);
    else if (call.flag("keepdim")) call.result.shape.push_back(Dim(1));
  }
  call.attributes["axes"] = axes;
  return Unit{};
}

Status arg_reduce_shape(Call& call) {
  LW_CHECK(reduce_shape(call));
  for (std::int64_t axis : call.integers("axes"))
    if (!call.is_at_least(call.operands[0].shape[axis], 1))
      return call.error(ErrorCode::shape_mismatch,
                        "axis " + std::to_string(axis) + " of size " + call.operands[0].shape[axis].text() +
                            " may be empty",
                        "axes with at least one element");
  return Unit{};
}

Status matmul_shape(Call& call) {
  for (int i : {0, 1}) LW_CHECK(need_rank(call, i, 2, kMaxRank, "operands of rank 2 or more"));
  std::vector<Dim> a = call.operands[0].shape, b = call.operands[1].shape;
  if (call.flag("transpose_a")) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (call.flag("transpose_b")) std::swap(b[b.size() - 1], b[b.size() - 2]);
  LW_CHECK(need_equal(call, a.back(), b[b.size() - 2], "contracted sizes"));
  LW_TRY(std::vector<Dim> shape, broadcast_two(call, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  call.result.shape = std::move(shape);
  return Unit{};
}

Status group_of_shape(Call& call) {
  LW_CHECK(need_rank(call, 0, 1, 1, "offsets with one axis"));
  LW_CHECK(attribute_shape(call));
  if (call.result.shape.size() != 1)
    return call.error(ErrorCode::bad_attribute, "a shape of rank " + std::to_string(call.result.shape.size()), "one size");
  if (!call.is_at_least(call.operands[0].shape[0], 1))
    return call.error(ErrorCode::shape_mismatch, "offsets of size " + call.operands[0].shape[0].text() + ", which may be empty", "at least one group");
  return Unit{};
}

Status matmul_at_shape(Call& call) {
  LW_CHECK(need_rank(call, 0, 2, 2, "rows of rank 2"));
  LW_CHECK(need_rank(call, 1, 3, 3, "matrices of rank 3"));
  LW_CHECK(need_rank(call, 2, 1, 1, "an index with one axis"));
  const std::vector<Dim>&x = call.operands[0].shape, &w = call.operands[1].shape;
  const bool transposed = call.flag("transpose_b");
  LW_CHECK(need_equal(call, x[1], w[transposed ? 2 : 1], "contracted sizes"));
  LW_CHECK(need_equal(call, x[0], call.operands[2].shape[0], "rows and indices"));
  if (!call.is_at_least(w[0], 1))
    return call.error(ErrorCode::shape_mismatch, w[0].text() + " matrices, which may be none", "at least one matrix");
  call.result.shape = {x[0], w[transposed ? 1 : 2]};
  return Unit{};
}

Status gather_shape(Call& call) {
  LW_CHECK(same_shape_axes(call));
  const std::vector<Dim>&shape = call.operands[0].shape, &index = call.operands[1].shape;
  LW_CHECK(need_rank(call, 1, static_cast<int>(shape.size()), static_cast<int>(shape.size()),
                     "an index of the same rank"));
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (static_cast<std::int64_t>(d) != call.integer("axis") && !call.is_at_least(shape[d] - index[d], 0))
      return call.error(
          ErrorCode::shape_mismatch,
          "axis " + std::to_string(d) + ": index of size " + index[d].text() + " for size " + shape[d].text(),
          "an index that is nowhere larger, except along the gathered axis");
  call.result.shape = index;
  return Unit{};
}

Status embedding_shape(Call& call) {
  LW_CHECK(need_rank(call, 0, 1, kMaxRank, "a table with at least one axis"));
  call.result.shape = call.operands[1].shape;
  const std::vector<Dim>& table = call.operands[0].shape;
  call.result.shape.insert(call.result.shape.end(), table.begin() + 1, table.end());
  return Unit{};
}

Status index_select_shape(Call& call) {
  LW_CHECK(same_shape_axes(call));
  LW_CHECK(need_rank(call, 1, 1, 1, "an index with one axis"));
  call.result.shape[call.integer("axis")] = call.operands[1].shape[0];
  return Unit{};
}

Status scatter_shape(Call& call) {
  LW_CHECK(gather_shape(call));
  if (call.word("reduce") == "add" && call.operands[0].dtype == DType::boolean)
    return call.error(ErrorCode::bad_attribute, "reduce=add of bool", "reduce=none, or an integer dtype");
  if (call.operands[2].shape != call.operands[1].shape)
    return call.error(
        ErrorCode::shape_mismatch,
        "index " + list_text(call.operands[1].shape) + " and source " + list_text(call.operands[2].shape),
        "index and source of one shape");
  call.result.shape = call.operands[0].shape;
  return Unit{};
}

Status slice_update_shape(Call& call) {
  LW_CHECK(same_shape_axes(call));
  LW_CHECK(need_rank(call, 2, 0, 0, "a scalar start"));
  const std::vector<Dim>&shape = call.operands[0].shape, &part = call.operands[1].shape;
  LW_CHECK(need_rank(call, 1, static_cast<int>(shape.size()), static_cast<int>(shape.size()),
                     "a part of the same rank"));
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (static_cast<std::int64_t>(d) != call.integer("axis"))
      LW_CHECK(need_equal(call, shape[d], part[d], "axis " + std::to_string(d)));
  return Unit{};
}

}  // namespace loopwright::graph
