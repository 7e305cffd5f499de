// Ops of the reference that move elements: sources, views, gathers, writes.
#include <algorithm>

#include "tests/support/reference_tensor.h"

namespace loopwright::test {
namespace {

void run_constant(Job& job) {
  const Attribute& value = *job.find("value");
  if (const auto* whole = std::get_if<std::int64_t>(&value)) job.out.whole[0] = *whole;
  else job.out.real[0] = round_float(job.out.dtype, std::get<double>(value));
}

void run_iota(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t value = job.integer("start", 0) + job.integer("step", 1) * index[axis];
    if (job.out.holds_reals()) job.out.real[at] = round_float(job.out.dtype, static_cast<double>(value));
    else job.out.whole[at] = wrap_to(job.out.dtype, value);
    ++at;
  });
}

/// out[index] = in[source(index)].
void pull(Job& job, const std::function<Sizes(const Sizes&)>& source) {
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    job.out.copy(at++, *job.in[0], job.in[0]->offset(source(index)));
  });
}

void run_permute(Job& job) {
  const Sizes axes = job.integers("axes");
  pull(job, [&](const Sizes& index) {
    Sizes source(index.size());
    for (std::size_t d = 0; d < index.size(); ++d) source[axes[d]] = index[d];
    return source;
  });
}

void run_broadcast(Job& job) {
  const Sizes& from = job.in[0]->shape;
  pull(job, [&](const Sizes& index) {
    Sizes source(index.end() - static_cast<std::ptrdiff_t>(from.size()), index.end());
    for (std::size_t d = 0; d < from.size(); ++d)
      if (from[d] == 1) source[d] = 0;
    return source;
  });
}

void run_slice(Job& job) {
  const Sizes axes = job.integers("axes"), start = job.dims("start");
  Sizes step = job.integers("step");
  step.resize(axes.size(), 1);
  pull(job, [&](const Sizes& index) {
    Sizes source = index;
    for (std::size_t k = 0; k < axes.size(); ++k) source[axes[k]] = start[k] + step[k] * index[axes[k]];
    return source;
  });
}

void run_flip(Job& job) {
  const Sizes axes = job.integers("axes");
  pull(job, [&](const Sizes& index) {
    Sizes source = index;
    for (std::int64_t axis : axes) source[axis] = job.in[0]->shape[axis] - 1 - index[axis];
    return source;
  });
}

void run_concat(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  std::int64_t begin = 0;
  for (const Tensor* part : job.in) {
    for_each_index(part->shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
      Sizes target = index;
      target[axis] += begin;
      job.out.copy(job.out.offset(target), *part, at++);
    });
    begin += part->shape[axis];
  }
}

void run_pad(Job& job) {
  const Sizes low = job.dims("low");
  for (std::int64_t i = 0; i < job.out.count(); ++i) job.out.copy(i, *job.in[1], 0);
  for_each_index(job.in[0]->shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    Sizes target = index;
    for (std::size_t d = 0; d < index.size(); ++d) target[d] += low[d];
    job.out.copy(job.out.offset(target), *job.in[0], at++);
  });
}

/// out[index] = in[.., nearest valid position(index), ..]; an empty axis gives zeros.
void pull_clamped(Job& job, std::size_t axis,
                  const std::function<std::pair<std::int64_t, Sizes>(const Sizes&)>& source) {
  const std::int64_t size = job.in[0]->shape[axis];
  if (size == 0) return;
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    auto [position, from] = source(index);
    from[axis] = std::clamp<std::int64_t>(position, 0, size - 1);
    job.out.copy(at++, *job.in[0], job.in[0]->offset(from));
  });
}

void run_gather(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  pull_clamped(job, axis, [&](const Sizes& index) {
    return std::pair(job.in[1]->whole[job.in[1]->offset(index)], index);
  });
}

void run_index_select(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  pull_clamped(job, axis,
               [&](const Sizes& index) { return std::pair(job.in[1]->whole[index[axis]], index); });
}

void run_embedding(Job& job) {
  const auto split = static_cast<std::ptrdiff_t>(job.in[1]->shape.size());
  pull_clamped(job, 0, [&](const Sizes& index) {
    Sizes source{0};
    source.insert(source.end(), index.begin() + split, index.end());
    return std::pair(job.in[1]->whole[job.in[1]->offset(Sizes(index.begin(), index.begin() + split))],
                     source);
  });
}

void run_scatter(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  const Attribute* reduce = job.find("reduce");
  const bool add = reduce && std::get<std::string>(*reduce) == "add";
  for (std::int64_t i = 0; i < job.out.count(); ++i) job.out.copy(i, *job.in[0], i);
  for_each_index(job.in[1]->shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t source = at++;
    Sizes target = index;
    target[axis] = job.in[1]->whole[source];
    if (target[axis] < 0 || target[axis] >= job.out.shape[axis]) return;
    const std::int64_t to = job.out.offset(target);
    if (!add) job.out.copy(to, *job.in[2], source);
    else if (job.out.holds_reals()) job.out.real[to] += job.in[2]->real[source];
    else if (job.out.dtype == DType::boolean) job.out.whole[to] |= job.in[2]->whole[source];
    else job.out.whole[to] = wrap_to(job.out.dtype, job.out.whole[to] + job.in[2]->whole[source]);
  });
}

void run_slice_update(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  for (std::int64_t i = 0; i < job.out.count(); ++i) job.out.copy(i, *job.in[0], i);
  for_each_index(job.in[1]->shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t source = at++;
    Sizes target = index;
    target[axis] += job.in[2]->whole[0];
    if (target[axis] >= 0 && target[axis] < job.out.shape[axis])
      job.out.copy(job.out.offset(target), *job.in[1], source);
  });
}

}  // namespace

bool run_movement(Job& job) {
  const std::string& op = job.node.op;
  if (op == "constant") run_constant(job);
  else if (op == "iota") run_iota(job);
  else if (op == "reshape")
    for (std::int64_t i = 0; i < job.out.count(); ++i) job.out.copy(i, *job.in[0], i);
  else if (op == "permute") run_permute(job);
  else if (op == "broadcast") run_broadcast(job);
  else if (op == "slice") run_slice(job);
  else if (op == "flip") run_flip(job);
  else if (op == "concat") run_concat(job);
  else if (op == "pad") run_pad(job);
  else if (op == "gather") run_gather(job);
  else if (op == "index_select") run_index_select(job);
  else if (op == "embedding") run_embedding(job);
  else if (op == "scatter") run_scatter(job);
  else if (op == "slice_update") run_slice_update(job);
  else return false;
  return true;
}

}  // namespace loopwright::test
