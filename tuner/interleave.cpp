#include "tuner/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

namespace loopwright {
namespace {

using Clock = std::chrono::steady_clock;

double time_calls_ns(const std::function<void()>& call, std::int64_t count) {
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) call();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / static_cast<double>(count);
}

double find_quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - std::floor(at)) * (sorted[above] - sorted[below]);
}

}  // namespace

namespace tuner {

int count_rounds(double round_s, const InterleaveOptions& options) {
  constexpr int kLeastRounds = 5;
  const int affordable = static_cast<int>(std::min(options.budget_s / std::max(round_s, 1e-9), 1e6));
  return std::clamp(affordable, std::min(kLeastRounds, options.rounds), options.rounds);
}

std::vector<Timing> interleave_samples(const std::vector<std::function<double()>>& contenders, int rounds,
                                       std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> samples(contenders.size());
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  for (int r = 0; r < rounds; ++r) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t c : order) samples[c].push_back(contenders[c]());
  }
  std::vector<Timing> out;
  for (std::vector<double>& s : samples) {
    std::sort(s.begin(), s.end());
    out.push_back({find_quantile(s, 0.5), find_quantile(s, 0.1), find_quantile(s, 0.9), static_cast<int>(s.size())});
  }
  return out;
}

}  // namespace tuner

std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& contenders,
                                     const InterleaveOptions& options) {
  std::vector<std::int64_t> batch;
  double round_s = 0;
  for (const auto& call : contenders) {
    double one_ns = std::max(1.0, time_calls_ns(call, 1));  // warm-up
    one_ns = std::max(1.0, time_calls_ns(call, one_ns > 1e8 ? 1 : 3));
    batch.push_back(std::max<std::int64_t>(1, std::llround(std::ceil(options.min_sample_s * 1e9 / one_ns))));
    round_s += static_cast<double>(batch.back()) * one_ns * 1e-9;
  }
  std::vector<std::function<double()>> samplers;
  for (std::size_t c = 0; c < contenders.size(); ++c)
    samplers.emplace_back([&, c] {
      if (options.settle_s > 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(options.settle_s));
        contenders[c]();
      }
      return time_calls_ns(contenders[c], batch[c]);
    });
  return tuner::interleave_samples(samplers, tuner::count_rounds(round_s, options), options.seed);
}

}  // namespace loopwright
