#include "schedules/gpu_products.h"

#include <algorithm>

#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

std::vector<TileResult> finish_result(Schedule& s, const MatrixProduct& p, const LoopId& tile, Place place) {
  std::vector<TileResult> out;
  const auto keep = [&](const std::string& buffer, std::vector<LoopId> loops) {
    if (loops.size() < 2) return s.reject("a result of fewer than two dimensions");
    out.push_back({buffer, {loops.end() - 2, loops.end()}});
  };
  for (const NestInfo& n : outputs(s)) {
    if (n.buffer == p.nest.buffer) continue;
    keep(n.buffer, s.fuse_epilogue(n.buffer, tile, place, !find_thin_sums(s).empty()));
    if (!s.ok()) return {};
  }
  if (p.nest.writes_output) keep(p.nest.buffer, s.hold(p.nest.buffer, tile, place));
  return out;
}

std::vector<std::string> list_sums(const Schedule& s, const std::vector<MatrixProduct>& products) {
  if (products.size() == 1) return {updated_buffer(s)};  // an output is held elsewhere
  std::vector<std::string> out;
  for (const MatrixProduct& p : products) out.push_back(p.nest.buffer);
  return out;
}

std::vector<LoopId> find_zeroing(const Schedule& s, const std::string& sum) {
  const std::vector<LoopId> loops = init_of(s, sum).loops;
  return loops.size() < 2 ? std::vector<LoopId>{} : std::vector<LoopId>{loops.end() - 2, loops.end()};
}

constexpr std::int64_t kMostOfGridY = 65535;

LoopId bind_tiles(Schedule& s, const MatrixProduct& p, const std::vector<LoopId>& tiles, std::int64_t rows, bool ahead) {
  std::vector<LoopId> along_x = tiles;
  if (!p.batch.empty()) {
    const LoopId batch = fuse_all(s, p.batch);
    if (!s.ok()) return {};
    if (s.max_extent(batch) <= kMostOfGridY) s.bind(batch, Axis::grid_y);
    else along_x.insert(along_x.begin(), batch);
  }
  if (!s.ok()) return {};
  const LoopId all = fuse_all(s, along_x);
  s.bind(all, Axis::grid_x);
  if (!s.ok() || p.group.empty()) return all;
  const std::vector<LoopId> search = s.align_rows(all, p.group, rows, ahead);
  constexpr std::int64_t kThreads = 64;
  if (s.ok() && ahead) bind_flat(s, search[0], kThreads, 1);
  return all;
}

std::vector<std::int64_t> put_first(std::int64_t value, std::vector<std::int64_t> domain) {
  std::erase(domain, value);
  domain.insert(domain.begin(), value);
  return domain;
}

std::int64_t count_row_tiles(const ProductSize& size, std::int64_t tile) {
  if (!size.is_ragged) return divide_up(size.rows, tile) * size.batch;
  // Half a tile of each group is beyond its end in the mean, and few groups have no tile.
  return std::max(size.batch, divide_up(size.batch * (2 * size.rows + tile), 2 * tile));
}

std::vector<ProductSize> sample_sizes(const Schedule& s, const MatrixProduct& p) {
  std::vector<ProductSize> out;
  for (const std::int64_t divisor : {1, 2, 4}) {
    bool differs = divisor == 1;
    const auto extent = [&](const LoopId& loop) {
      const std::int64_t most = std::max<std::int64_t>(1, s.max_extent(loop));
      if (most == 1 || s.constant_extent(loop)) return most;
      differs = true;
      return std::max<std::int64_t>(1, most / divisor);
    };
    ProductSize size{extent(p.row), extent(p.column), extent(p.reduction)};
    for (const LoopId& b : p.batch) size.batch *= extent(b);
    if (!p.group.empty()) size.rows = divide_up(size.rows, p.groups), size.batch *= p.groups, size.is_ragged = true;
    if (differs) out.push_back(size);
  }
  return out;
}

}  // namespace loopwright::schedules
