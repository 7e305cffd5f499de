// How tests steer the fake CUDA driver that they have loaded (through dlsym on the library they named).
#pragma once

#include <cstdint>

extern "C" {
/// `version`, `devices`, `capability`, `memory` (bytes), `init` (what cuInit answers), `load` (what loading code answers), `launch` (what every launch
/// answers), `lost` (what every call that touches the device answers), `hanging` (1: no stream is ever done).
void fake_cuda_set(const char* name, std::int64_t value);
/// How often since the start: `launches`, `launches with attributes`, `allocations`, `graphs`, `graph launches`.
std::int64_t fake_cuda_count(const char* name);
}
