#include "tuner/case.h"

#include <algorithm>
#include <cstring>

namespace loopwright::tuner {
GuardedBuffer place_buffer(std::uint64_t& next, std::uint64_t bytes, std::int64_t element_bytes, Placement placement) {
  GuardedBuffer place;
  place.bytes = bytes;
  place.zone_before = round_up(next, kPageBytes);
  const std::uint64_t begin = place.zone_before + kZoneBytes;
  const std::uint64_t slot =
      round_up(bytes, placement == Placement::aligned ? 64 : static_cast<std::uint64_t>(element_bytes));
  place.zone_after = begin + round_up(slot + kCanaryBytes, kPageBytes);
  place.data = place.zone_after - slot;
  place.front = begin;
  next = place.zone_after + kZoneBytes;
  return place;
}

std::int64_t count_span(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

std::vector<std::int64_t> list_positions(const std::vector<std::int64_t>& shape,
                                         const std::vector<std::int64_t>& strides) {
  std::int64_t dense = 1;
  bool is_dense = true;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != dense) is_dense = false;
    dense *= shape[d];
  }
  if (is_dense || dense == 0) return {};
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(dense));
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < dense; ++i) {
    positions.push_back(at);
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return positions;
}

std::vector<std::int64_t> evaluate_all(const std::vector<SizeExpr>& sizes, const std::vector<std::int64_t>& symbols) {
  std::vector<std::int64_t> values;
  for (const SizeExpr& s : sizes) values.push_back(s.evaluate(symbols.data()));
  return values;
}

std::vector<std::int64_t> symbol_values(const std::vector<std::string>& names, const Bindings& probe) {
  std::vector<std::int64_t> values;
  for (const std::string& n : names) {
    const auto at = probe.find(n);
    LW_BUG_IF(at == probe.end(), "a probe without a value for " + n);
    values.push_back(at->second);
  }
  values.push_back(0);  // never empty: SizeExpr::evaluate takes a pointer
  return values;
}

std::int64_t count_case_bytes(const Artifact& reference, const Bindings& probe) {
  const auto symbols = symbol_values(reference.symbols, probe);
  std::int64_t bytes = 0;
  for (const ArtifactArg& arg : reference.args) {
    if (arg.role == ArgRole::workspace) continue;
    bytes += count_span(evaluate_all(arg.shape, symbols), evaluate_all(arg.strides, symbols)) * size_bytes(arg.dtype);
  }
  return bytes;
}

std::vector<CaseBuffer> make_case_buffers(const Artifact& reference, const ir::Kernel& naive, const Bindings& probe,
                                          Draw draw, std::uint64_t seed) {
  const auto symbols = symbol_values(reference.symbols, probe);
  const auto ranges = find_index_ranges(naive, probe);
  std::vector<CaseBuffer> buffers;
  for (const ArtifactArg& arg : reference.args) {
    if (arg.role == ArgRole::workspace) continue;
    CaseBuffer b{.name = arg.name, .dtype = arg.dtype, .role = arg.role};
    for (const ir::Param& p : naive.params) {
      if (p.buffer->name == arg.name) b.dtype = p.buffer->dtype;
    }
    const auto shape = evaluate_all(arg.shape, symbols);
    const auto strides = evaluate_all(arg.strides, symbols);
    b.span = count_span(shape, strides);
    if (arg.role != ArgRole::input) b.positions = list_positions(shape, strides);
    if (arg.role != ArgRole::output) {
      b.content->pristine.resize(static_cast<std::size_t>(b.span * size_bytes(b.dtype)));
      const auto range = ranges.find(arg.name);
      fill_random(b.dtype, b.content->pristine.data(), b.span, draw, seed * 1000003 + buffers.size(),
                  range == ranges.end() ? nullptr : &range->second);
    }
    buffers.push_back(std::move(b));
  }
  return buffers;
}

void paint_canaries(Arena& arena, const GuardedBuffer& place) {
  std::memset(arena.at(place.front), kCanary, place.data - place.front);
  const std::uint64_t end = place.data + place.bytes;
  std::memset(arena.at(end), kCanary, place.zone_after - end);
}

std::optional<std::int64_t> find_broken_canary(const Arena& arena, const GuardedBuffer& place) {
  const auto scan = [&](std::uint64_t from, std::uint64_t to) -> std::optional<std::int64_t> {
    const std::uint8_t* begin = arena.at(from);
    const std::uint8_t* end = arena.at(to);
    const std::uint8_t* bad = std::find_if(begin, end, [](std::uint8_t b) { return b != kCanary; });
    if (bad == end) return std::nullopt;
    return static_cast<std::int64_t>(from + static_cast<std::uint64_t>(bad - begin)) -
           static_cast<std::int64_t>(place.data);
  };
  if (const auto before = scan(place.front, place.data)) return before;
  return scan(place.data + place.bytes, place.zone_after);
}

}  // namespace loopwright::tuner
