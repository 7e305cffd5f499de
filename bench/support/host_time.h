// Host time of calls that queue work on a GPU, while its queue has room.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/runtime/cuda_device.h"

namespace loopwright::bench {

/// Launches that are queued before the device is waited for: far fewer than the queue holds.
inline constexpr int kBatchedLaunches = 200;

struct HostCall {
  std::string name;
  std::function<int()> call;  ///< 0 when it went well
  int launches = 1;           ///< kernels of a call
  std::vector<double> ns;     ///< of one call, one number a round

  double quantile(double q) const;
};

/// All in turn in each round, in an order that moves on; some rounds are not counted. Ends the program when a call fails.
void time_calls(const runtime::CudaDevice& device, runtime::cuda::Stream stream, int rounds,
                std::vector<HostCall>& calls);

}  // namespace loopwright::bench
