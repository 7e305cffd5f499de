// How tests steer the fake CUDA driver that they have loaded (through dlsym on the library they named).
#pragma once

#include <cstdint>

extern "C" {
/// `version`, `devices`, `capability`, `memory` (bytes), `init` (what cuInit answers), `load` (what loading code answers), `launch` (what every launch
/// answers), `lost` (what every call that touches the device answers), `hanging` (1: no stream is ever done), `node` (what making
/// and setting nodes of graphs answers), `graph` (what launching a graph answers), `launch_us` and `node_us` (what a launch and
/// setting a node take the host), `idle` (1: kernels do nothing, and running them allocates nothing).
void fake_cuda_set(const char* name, std::int64_t value);
/// How often since the start: `launches`, `launches with attributes`, `allocations`, `graphs` (instantiated), `graph launches`,
/// `nodes set`, `own edges` (programmatic ones that were added); how many there are: `executables`.
std::int64_t fake_cuda_count(const char* name);
/// Of all launches that ran since the last call, by themselves or of graphs: kernels, grids, parameters, attributes, in order.
std::uint64_t fake_cuda_digest();
}
