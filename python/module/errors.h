// Errors of the library as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "loopwright/base.h"

namespace loopwright::python {

/// Sets the Python exception that `loopwright._errors.make` gives for the error.
void set_error(const Error& error);
/// The same, and throws it through nanobind.
[[noreturn]] void raise(const Error& error);

template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

}  // namespace loopwright::python
