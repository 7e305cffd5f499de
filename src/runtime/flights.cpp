#include "src/runtime/flights.h"

#include <algorithm>

namespace loopwright::runtime {
namespace {

bool share(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](std::int32_t t) { return std::find(b.begin(), b.end(), t) != b.end(); });
}

bool conflict(const Touched& a, const Touched& b) {
  return share(a.written, b.written) || share(a.written, b.read) || share(a.read, b.written);
}

}  // namespace

std::vector<int> find_flights(const std::vector<Touched>& kernels) {
  std::vector<int> flights;
  std::size_t first = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const auto in_flight = kernels.begin() + static_cast<std::ptrdiff_t>(first);
    const auto self = kernels.begin() + static_cast<std::ptrdiff_t>(k);
    const bool joins = k > 0 && k - first < kMostInFlight &&
                       std::none_of(in_flight, self, [&](const Touched& other) { return conflict(other, *self); });
    if (!joins) first = k;
    flights.push_back(k == 0 ? 0 : flights.back() + (joins ? 0 : 1));
  }
  return flights;
}

std::vector<std::size_t> gather_flights(const std::vector<Touched>& kernels) {
  std::vector<std::size_t> order, waiting;
  for (std::size_t k = 0; k < kernels.size(); ++k) waiting.push_back(k);
  while (!waiting.empty()) {
    std::vector<std::size_t> flight, later;
    for (const std::size_t k : waiting) {
      const auto in_the_way = [&](std::size_t other) { return conflict(kernels[other], kernels[k]); };
      const bool goes = flight.size() < kMostInFlight && std::none_of(flight.begin(), flight.end(), in_the_way) &&
                        std::none_of(later.begin(), later.end(), in_the_way);
      (goes ? flight : later).push_back(k);
    }
    order.insert(order.end(), flight.begin(), flight.end());
    waiting = std::move(later);
  }
  return order;
}

}  // namespace loopwright::runtime
