#include "bench/support/host_time.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace loopwright::bench {

double HostCall::quantile(double q) const {
  std::vector<double> sorted = ns;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

void time_calls(const runtime::CudaDevice& device, runtime::cuda::Stream stream, int rounds,
                std::vector<HostCall>& calls) {
  using Clock = std::chrono::steady_clock;
  constexpr int kNotCounted = 20;
  for (int round = -kNotCounted; round < rounds; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      HostCall& c = calls[(i + static_cast<std::size_t>(round + kNotCounted)) % calls.size()];
      const int batch = std::max(1, kBatchedLaunches / c.launches);
      int failures = 0;
      const auto from = Clock::now();
      for (int k = 0; k < batch; ++k) failures |= c.call();
      const double ns = std::chrono::duration<double, std::nano>(Clock::now() - from).count() / batch;
      if (failures != 0 || device.wait(stream) != ErrorCode::ok) {
        std::fprintf(stderr, "%s failed: %s\n", c.name.c_str(), device.describe_failure().c_str());
        std::exit(1);
      }
      if (round >= 0) c.ns.push_back(ns);
    }
  }
}

}  // namespace loopwright::bench
