// Kernels that may run side by side, and orders in which more of them do.
#include "src/runtime/flights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace loopwright::runtime::testing {
namespace {

bool touch_the_same(const Touched& a, const Touched& b) {
  const auto meet = [](const std::vector<std::int32_t>& x, const std::vector<std::int32_t>& y) {
    return std::any_of(x.begin(), x.end(), [&](std::int32_t t) { return std::count(y.begin(), y.end(), t) > 0; });
  };
  return meet(a.written, b.written) || meet(a.written, b.read) || meet(a.read, b.written);
}

TEST(Flights, end_where_something_in_flight_is_touched) {
  const std::vector<Touched> kernels = {
      {{0}, {1}},  // reads the same as
      {{0}, {2}},  // this one
      {{1}, {3}},  // reads what the first writes
      {{4}, {0}},  // overwrites what both of the first flight have read
      {{5}, {3}},  // writes what the third writes
  };
  EXPECT_EQ(find_flights(kernels), (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(Flights, are_gathered_from_chains_that_stand_one_behind_the_other) {
  const std::vector<Touched> kernels = {{{0}, {1}}, {{1}, {2}}, {{0}, {3}}, {{3}, {4}}, {{2, 4}, {5}}};
  EXPECT_EQ(gather_flights(kernels), (std::vector<std::size_t>{0, 2, 1, 3, 4}));
}

TEST(Flights, keep_the_order_of_kernels_that_touch_the_same_and_hold_none_that_do) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Touched> kernels(static_cast<std::size_t>(1 + below(40)));
    for (Touched& k : kernels) {
      for (int i = below(3); i >= 0; --i) k.read.push_back(below(30));
      k.written.push_back(below(30));
    }
    const std::vector<std::size_t> order = gather_flights(kernels);
    std::vector<std::size_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < kernels.size(); ++i) ASSERT_EQ(sorted[i], i);
    ASSERT_EQ(order.size(), kernels.size());
    std::vector<Touched> moved;
    for (const std::size_t k : order) moved.push_back(kernels[k]);
    const std::vector<int> flights = find_flights(moved);
    for (std::size_t a = 0; a < order.size(); ++a)
      for (std::size_t b = a + 1; b < order.size(); ++b) {
        if (!touch_the_same(moved[a], moved[b])) continue;
        EXPECT_LT(order[a], order[b]) << "round " << round;
        EXPECT_LT(flights[a], flights[b]) << "round " << round;
      }
    const std::vector<int> before = find_flights(kernels);
    EXPECT_LE(flights.back(), before.back()) << "more flights than in the order they came in";
  }
}

}  // namespace
}  // namespace loopwright::runtime::testing
