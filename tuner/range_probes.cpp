#include "tuner/range_probes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tuner/probes.h"

namespace loopwright::tuner {
namespace {

constexpr int kSpread = 1024;             ///< points that stand for evenly spread calls
constexpr double kUncountedShare = 0.1;
constexpr std::size_t kMostCorners = 8;

double log_of(std::int64_t value) { return std::log(static_cast<double>(std::max<std::int64_t>(value, 1))); }

/// The radical inverse: a sequence in [0, 1) without clusters; the bases of two axes must be different primes.
double invert_digits(int index, int base) {
  double value = 0, scale = 1.0 / base;
  for (; index > 0; index /= base, scale /= base) value += scale * (index % base);
  return value;
}
int prime_of(std::size_t axis) {
  constexpr int kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19};
  return kPrimes[axis % std::size(kPrimes)];
}

std::int64_t place_between(const Symbol& s, double unit) {
  const double at = log_of(s.lo) + (log_of(s.hi) - log_of(s.lo)) * unit;
  return std::clamp(static_cast<std::int64_t>(std::llround(std::exp(at))), s.lo, s.hi);
}

std::vector<std::int64_t> choose_values(const Symbol& s, int count) {
  const std::int64_t lo = s.lo, hi = s.hi;
  std::set<std::int64_t> values{lo, hi};
  if (hi <= lo) return {lo};
  // First the coarse grid, then what is just beyond a tile's edge; the latter only as far as `count` goes.
  std::vector<std::int64_t> grid, edges;
  for (std::int64_t p = 1; p <= hi && p > 0; p *= 2) {
    grid.push_back(p);
    if (p >= 16) edges.push_back(p + 1), edges.push_back(p - 1);
  }
  std::erase_if(grid, [&](std::int64_t v) { return v < lo || v > hi; });
  std::erase_if(edges, [&](std::int64_t v) { return v < lo || v > hi; });
  const auto room = static_cast<std::size_t>(std::max(count, 2));
  const std::size_t step = std::max<std::size_t>(1, (grid.size() + room - 1) / room);
  for (std::size_t i = 0; i < grid.size() && values.size() < room; i += step) values.insert(grid[i]);
  const std::size_t edge_step = std::max<std::size_t>(1, edges.size() / std::max<std::size_t>(1, room - std::min(room, values.size())) + 1);
  for (std::size_t i = 0; i < edges.size() && values.size() < room; i += edge_step) values.insert(edges[i]);
  return {values.begin(), values.end()};
}

/// The shape at a share of all counted calls, in the order given.
const Bindings& take_quantile(const std::vector<ShapeCount>& shapes, double share) {
  double all = 0;
  for (const ShapeCount& s : shapes) all += s.count;
  double passed = 0;
  for (const ShapeCount& s : shapes) {
    passed += s.count;
    if (passed > share * all) return s.values;
  }
  return shapes.back().values;
}

}  // namespace

double measure_volume(const Bindings& shape) {
  double volume = 1;
  for (const auto& [name, value] : shape) volume *= static_cast<double>(std::max<std::int64_t>(value, 1));
  return volume;
}

double measure_distance(const Bindings& a, const Bindings& b) {
  double sum = 0;
  for (const auto& [name, value] : a) {
    const double difference = log_of(value) - log_of(b.at(name));
    sum += difference * difference;
  }
  return sum;
}

std::vector<Bindings> choose_range_probes(const std::vector<Symbol>& symbols, int count) {
  std::vector<std::vector<std::int64_t>> values;
  // Few values on each of several axes: cuts are made between them, and each takes several probes to be worth it.
  const int on_axis = symbols.size() == 1 ? count : std::max(3, 2 * static_cast<int>(std::sqrt(count)) - 1);
  double combinations = 1;
  for (const Symbol& s : symbols) {
    values.push_back(choose_values(s, on_axis));
    combinations *= static_cast<double>(values.back().size());
  }
  std::vector<Bindings> probes;
  const auto add = [&](const auto& position) {
    Bindings probe;
    for (std::size_t a = 0; a < symbols.size(); ++a) probe[symbols[a].name] = values[a][position(a)];
    add_unique(probes, probe);
  };
  if (combinations <= count) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(combinations); ++i) {
      std::size_t rest = i;
      std::vector<std::size_t> digits;
      for (const auto& v : values) digits.push_back(rest % v.size()), rest /= v.size();
      add([&](std::size_t a) { return digits[a]; });
    }
    return probes;
  }
  const std::size_t corners = symbols.size() < 4 ? std::size_t{1} << symbols.size() : kMostCorners;
  for (std::size_t i = 0; i < corners; ++i) add([&](std::size_t a) { return (i >> a & 1) != 0 ? values[a].size() - 1 : 0; });
  for (int i = 1; i < 64 * count && static_cast<int>(probes.size()) < count; ++i) {
    add([&](std::size_t a) {
      return static_cast<std::size_t>(invert_digits(i, prime_of(a)) * static_cast<double>(values[a].size()));
    });
  }
  return probes;
}

std::vector<Bindings> choose_held_out(const std::vector<Symbol>& symbols, const std::vector<Bindings>& used, int count,
                                      std::uint64_t seed, const std::vector<ShapeCount>& shapes) {
  std::vector<Bindings> chosen;
  std::mt19937_64 random(seed);
  const auto draw_unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  // Of each symbol one value in each of `count` parts, the parts in another order for each further symbol.
  std::vector<std::vector<int>> parts;
  for (std::size_t a = 0; a < symbols.size(); ++a) {
    parts.emplace_back();
    for (int i = 0; i < count; ++i) parts[a].push_back(i);
    for (std::size_t i = parts[a].size(); a > 0 && i > 1; --i) std::swap(parts[a][i - 1], parts[a][random() % i]);
  }
  const auto is_taken = [&](const Bindings& shape) {
    return std::find(used.begin(), used.end(), shape) != used.end() || std::find(chosen.begin(), chosen.end(), shape) != chosen.end();
  };
  for (int i = 0; i < count; ++i) {
    for (int tries = 0; tries < 32; ++tries) {
      Bindings shape;
      if (!shapes.empty() && i % 4 != 3 && tries < 16) {
        shape = take_quantile(shapes, (i + draw_unit()) / count);
      } else {
        for (std::size_t a = 0; a < symbols.size(); ++a)
          shape[symbols[a].name] = place_between(symbols[a], (parts[a][i] + draw_unit()) / count);
      }
      if (is_taken(shape)) continue;
      chosen.push_back(std::move(shape));
      break;
    }
  }
  return chosen;
}

std::vector<double> weigh_probes(const std::vector<Symbol>& symbols, const std::vector<Bindings>& probes,
                                 const std::vector<ShapeCount>& shapes) {
  std::vector<double> weights(probes.size(), 0);
  const auto add = [&](const Bindings& call, double weight) {
    std::size_t nearest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const double distance = measure_distance(call, probes[i]);
      if (distance < least) least = distance, nearest = i;
    }
    weights[nearest] += weight;
  };
  double counted = 0;
  for (const ShapeCount& s : shapes) counted += s.count;
  for (const ShapeCount& s : shapes) add(s.values, (1 - kUncountedShare) * s.count / counted);
  const double even_share = shapes.empty() ? 1 : kUncountedShare;
  for (int i = 0; i < kSpread; ++i) {
    Bindings call;
    for (std::size_t a = 0; a < symbols.size(); ++a) call[symbols[a].name] = place_between(symbols[a], invert_digits(i, prime_of(a)));
    add(call, even_share / kSpread);
  }
  return weights;
}

std::vector<Bindings> choose_typical(const std::vector<ShapeCount>& shapes) {
  std::vector<ShapeCount> by_volume = shapes;
  std::stable_sort(by_volume.begin(), by_volume.end(), [](const ShapeCount& a, const ShapeCount& b) {
    return measure_volume(a.values) < measure_volume(b.values);
  });
  std::vector<Bindings> typical;
  for (const double share : {0.5, 0.9, 0.1}) {
    if (!by_volume.empty()) add_unique(typical, take_quantile(by_volume, share));
  }
  return typical;
}

}  // namespace loopwright::tuner
