// The callable object: from Python tensors to a launch without a Python frame of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace loopwright::python {

/// Adds the type `Call` to the module. Its methods are described in `loopwright/_core.pyi`.
void bind_call(nanobind::module_& module);

}  // namespace loopwright::python
