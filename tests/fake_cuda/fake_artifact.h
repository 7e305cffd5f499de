// Artifacts that the fake driver loads.
#pragma once

#include <string>

#include "loopwright/artifact.h"

namespace loopwright::test {

/// One launch of a kernel of fake_kernels.cpp, in blocks of 128 threads, one for each of `threads` elements.
inline void set_fake_kernel(Artifact& artifact, const std::string& kernel, const SizeExpr& threads) {
  artifact.target = "cuda:sm_90a";
  CudaLaunch launch;
  launch.entry = kernel;
  launch.grid[0] = SizeExpr::apply(SizeExpr::Op::ceil_div, threads, 128);
  launch.block[0] = 128;
  artifact.launches = {launch};
  const std::string image = "fake cubin: " + kernel;
  artifact.image.assign(image.c_str(), image.c_str() + image.size() + 1);
}

}  // namespace loopwright::test
