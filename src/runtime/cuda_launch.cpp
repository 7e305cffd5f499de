#include "src/runtime/cuda_launch.h"

namespace loopwright::runtime {
namespace {

constinit thread_local cuda::Status last_failure = cuda::kSuccess;

}  // namespace

cuda::Status& last_cuda_failure() noexcept { return last_failure; }

}  // namespace loopwright::runtime
