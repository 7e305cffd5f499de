#include "schedules/nests.h"

#include <algorithm>

namespace loopwright::schedules {
namespace {

/// Whether loops `a` and `b` (b inside a) are one dimension for this access.
bool is_one_dimension(const Schedule& s, const ReadInfo& read, const std::string& a, const std::string& b) {
  const auto has_opaque = std::find(read.dims.begin(), read.dims.end(), "") != read.dims.end();
  const auto at_a = std::find(read.dims.begin(), read.dims.end(), a);
  const auto at_b = std::find(read.dims.begin(), read.dims.end(), b);
  if (has_opaque) return false;  // an index that is not a plain loop may use either of them
  if (at_a == read.dims.end() && at_b == read.dims.end()) return true;
  return at_a != read.dims.end() && at_b == at_a + 1 && s.buffer(read.buffer).is_dense;
}

}  // namespace

bool is_pointwise(const NestInfo& nest) { return !nest.is_init && !nest.is_update; }

std::vector<NestInfo> updates(const Schedule& s) {
  std::vector<NestInfo> out;
  for (NestInfo& n : s.nests())
    if (n.is_update) out.push_back(std::move(n));
  return out;
}

std::vector<NestInfo> sums(const Schedule& s) {
  std::vector<NestInfo> out = updates(s);
  std::erase_if(out, [](const NestInfo& n) { return n.finds_groups; });
  return out;
}

std::optional<NestInfo> find_groups(const Schedule& s) {
  for (NestInfo& n : s.nests())
    if (n.finds_groups) return std::move(n);
  return std::nullopt;
}

std::vector<std::string> find_thin_sums(const Schedule& s) {
  constexpr std::int64_t kMostTerms = 32;
  std::vector<std::string> out;
  const std::vector<NestInfo> all = sums(s);
  for (const NestInfo& n : all) {
    const bool is_few = n.reduction.size() == 1 && s.constant_extent(n.reduction[0]).value_or(INT64_MAX) <= kMostTerms;
    if (n.is_product && is_few && !n.writes_output) out.push_back(n.buffer);
  }
  if (out.size() == all.size()) out.clear();  // beside nothing
  return out;
}

std::vector<NestInfo> main_updates(const Schedule& s) {
  const std::vector<std::string> thin = find_thin_sums(s);
  std::vector<NestInfo> out = sums(s);
  std::erase_if(out, [&](const NestInfo& n) { return std::find(thin.begin(), thin.end(), n.buffer) != thin.end(); });
  return out;
}

void inline_thin_sums(Schedule& s) {
  for (const std::string& buffer : find_thin_sums(s))
    if (s.ok()) s.inline_buffer(buffer);
}

bool runs_along_memory(const NestInfo& sum) {
  return !sum.reduction.empty() &&
         std::any_of(sum.reads.begin(), sum.reads.end(), [&](const ReadInfo& r) { return ends_in(r, sum.reduction.back()); });
}

std::vector<NestInfo> outputs(const Schedule& s) {
  std::vector<NestInfo> out;
  for (NestInfo& n : s.nests())
    if (n.writes_output && !n.is_init) out.push_back(std::move(n));
  return out;
}

NestInfo nest_of(const Schedule& s, const std::string& buffer) {
  NestInfo found;
  for (NestInfo& n : s.nests())
    if (n.buffer == buffer && !n.is_init) found = std::move(n);
  return found;
}

NestInfo init_of(const Schedule& s, const std::string& buffer) {
  for (NestInfo& n : s.nests())
    if (n.buffer == buffer && n.is_init) return std::move(n);
  return {};
}

NestInfo nest_with(const Schedule& s, const LoopId& loop) {
  for (NestInfo& n : s.nests())
    if (std::find(n.loops.begin(), n.loops.end(), loop) != n.loops.end()) return std::move(n);
  return {};
}

bool has_loop(const ReadInfo& r, const LoopId& l) { return std::find(r.dims.begin(), r.dims.end(), l.name) != r.dims.end(); }

bool ends_in(const ReadInfo& r, const LoopId& l) { return !r.dims.empty() && r.dims.back() == l.name; }

int reader_count(const Schedule& s, const std::string& buffer) {
  int count = 0;
  for (const NestInfo& n : s.nests())
    count +=
        std::any_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& r) { return r.buffer == buffer; });
  return count;
}

void inline_intermediates(Schedule& s, const std::vector<std::string>& keep) {
  for (const NestInfo& n : s.nests()) {
    if (!is_pointwise(n) || n.writes_output) continue;
    if (std::find(keep.begin(), keep.end(), n.buffer) != keep.end()) continue;
    s.attempt([&](Schedule& t) { t.inline_buffer(n.buffer); });
  }
}

int count_row_loops(const Schedule& s) {
  int rows = -1;
  for (const NestInfo& n : updates(s)) {
    const int spatial = static_cast<int>(n.spatial.size());
    if (rows >= 0 && spatial != rows) return -1;
    rows = spatial;
  }
  return rows;
}

bool reduces_rows(const Schedule& s) {
  const int rows = count_row_loops(s);
  const std::vector<NestInfo> sums = updates(s), written = outputs(s);
  const auto has_rows = [&](const NestInfo& n) { return static_cast<int>(n.loops.size()) >= rows; };
  return rows >= 1 && !sums.empty() && std::all_of(written.begin(), written.end(), has_rows) && std::all_of(sums.begin(), sums.end(), runs_along_memory);
}

std::vector<std::string> find_shared_rows(const Schedule& s) {
  std::vector<std::string> out;
  for (const NestInfo& n : s.nests())
    if (is_pointwise(n) && !n.writes_output && reader_count(s, n.buffer) > 1) out.push_back(n.buffer);
  return out;
}

std::vector<std::string> intermediates_backwards(const Schedule& s) {
  std::vector<std::string> out;
  const std::vector<NestInfo> nests = s.nests();
  for (auto n = nests.rbegin(); n != nests.rend(); ++n)
    if (!n->writes_output && std::find(out.begin(), out.end(), n->buffer) == out.end())
      out.push_back(n->buffer);
  return out;
}

std::vector<LoopId> fuse_contiguous(Schedule& s, const NestInfo& nest) {
  std::vector<LoopId> loops = nest.loops;
  std::vector<ReadInfo> accesses = nest.reads;
  ReadInfo write{nest.buffer, {}};
  for (const LoopId& l : nest.loops) write.dims.push_back(l.name);
  accesses.push_back(write);
  while (loops.size() >= 2) {
    const std::string outer = loops[loops.size() - 2].name, inner = loops.back().name;
    const bool can = std::all_of(accesses.begin(), accesses.end(),
                                 [&](const ReadInfo& r) { return is_one_dimension(s, r, outer, inner); });
    if (!can) break;
    const LoopId fused = s.fuse({outer}, {inner});
    if (!s.ok()) return {};
    for (ReadInfo& r : accesses) {
      const auto at = std::find(r.dims.begin(), r.dims.end(), outer);
      if (at == r.dims.end()) continue;
      *at = fused.name;
      r.dims.erase(at + 1);
    }
    loops.pop_back();
    loops.back() = fused;
  }
  return loops;
}

LoopId fuse_all(Schedule& s, std::vector<LoopId> loops) {
  if (loops.empty()) return {};
  LoopId fused = loops[0];
  for (std::size_t i = 1; i < loops.size(); ++i) fused = s.fuse(fused, loops[i]);
  return fused;
}

std::int64_t clamp_width(const Schedule& s, const LoopId& loop, std::int64_t width) {
  const std::int64_t extent = s.max_extent(loop);
  while (width > 1 && width > extent) width /= 2;
  return std::max<std::int64_t>(width, 1);
}

LoopId vectorize_inner(Schedule& s, const LoopId& loop, std::int64_t width) {
  width = clamp_width(s, loop, width);
  if (width == 1) return loop;
  const std::vector<LoopId> parts = s.split(loop, {width});
  if (!s.ok()) return {};
  s.vectorize(parts[1]);
  return parts[0];
}

void reduce_in_vectors(Schedule& s, const LoopId& loop, std::int64_t lanes, std::int64_t vectors) {
  lanes = clamp_width(s, loop, lanes);
  vectors = std::max<std::int64_t>(1, clamp_width(s, loop, lanes * vectors) / lanes);
  if (lanes * vectors == 1) return;
  const auto spread = [&s](const LoopId& r, std::int64_t ways) {
    const std::vector<LoopId> parts = s.reduce_across(r, ways, true, Place::registers);
    if (!s.ok()) return LoopId{};
    s.vectorize(parts[0]);
    return parts[2];
  };
  LoopId combine = spread(loop, lanes * vectors);
  if (vectors > 1 && s.ok()) combine = spread(combine, lanes);
  if (s.ok()) s.unroll(combine);
}

bool is_beyond_caches(const Schedule& s, const std::string& output) {
  const BufferShape shape = s.buffer(output);
  double bytes = size_bytes(shape.dtype);
  for (const Dim& d : shape.shape) {
    const auto extent = d.constant();
    if (!extent) return false;
    bytes *= static_cast<double>(*extent);
  }
  return bytes > static_cast<double>(std::max(s.target().l2_bytes, s.target().l3_bytes));
}

std::int64_t natural_lanes(const Schedule& s, const NestInfo& nest) {
  int bytes = size_bytes(s.buffer(nest.buffer).dtype);
  for (const ReadInfo& r : nest.reads) bytes = std::max(bytes, size_bytes(s.buffer(r.buffer).dtype));
  bytes = std::max(bytes, 4);  // arithmetic is in f32 or wider
  return std::max(1, s.target().vector_bytes / bytes);
}

}  // namespace loopwright::schedules
