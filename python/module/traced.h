// One way to serve a call: a program, where its inputs come from, and what has to hold.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/module/program.h"
#include "python/module/tensor.h"

namespace loopwright::python {

namespace nb = nanobind;

/// Where a tensor comes from at each call: an argument, the entry of a dict (a parameter), or a fixed object.
struct Source {
  std::int32_t argument = -1;
  nb::object dict, key;
  nb::object fixed;

  /// The object of this call, borrowed. Null when there is none (with an exception when looking it up failed).
  PyObject* find(PyObject* const* arguments) const {
    return argument >= 0     ? arguments[argument]
           : dict.is_valid() ? PyDict_GetItemWithError(dict.ptr(), key.ptr())
                             : fixed.ptr();
  }
};
/// An entry of a dict (or the content of a cell, when `key` is not set) that must be the very object seen when tracing.
struct Guard {
  nb::object place, key, expected;
};
/// An argument that is no tensor; another value is another program.
struct Constant {
  std::int32_t argument = 0;
  nb::object value;
};
/// One element of what is returned: an output of the program, an argument as it was given, or a fixed object.
struct Returned {
  std::int32_t output = -1;
  std::int32_t argument = -1;
  nb::object fixed;
};

struct Traced {
  Program program;
  std::vector<Source> sources;  ///< one for each input of the program
  std::vector<Guard> guards;
  std::vector<Constant> constants;
  std::vector<Returned> returned;
  nb::object unflatten;  ///< None: the one element itself; else called with the list of elements
};

/// From the tuples of `Call.add`; raises TypeError for what does not fit the program.
Traced parse_traced(Program program, nb::list sources, nb::list guards, nb::list constants, nb::list returned,
                    nb::object unflatten);

/// From an int, (dict, key) or (object,); raises TypeError.
Source parse_source(nb::handle item);

/// Whether gradients are enabled and this tensor (of PyTorch; else no) requires one. -1 with an exception.
int needs_gradient(PyObject* tensor);

/// The tensors of one call. Small plans need no heap.
class Inputs {
 public:
  static constexpr std::size_t kOnStack = 24;
  explicit Inputs(std::size_t count);
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  /// False with a Python exception (which names the argument), or with a mismatch and none.
  bool read(const Traced& traced, PyObject* const* arguments, Mismatch& mismatch, std::int64_t* symbols);
  const DLTensor* const* tensors() const { return tensors_; }
  PyObject* object(std::size_t i) const { return objects_[i]; }
  void* data(std::size_t i) const { return static_cast<char*>(tensors_[i]->data) + tensors_[i]->byte_offset; }
  std::size_t count() const { return count_; }
  const TensorType* first_type() const { return first_type_; }

 private:
  bool read_one(const Traced& traced, std::size_t i, PyObject* const* arguments, Mismatch& mismatch);

  std::size_t count_, read_ = 0;
  DLTensor on_stack_[kOnStack];
  const DLTensor* tensor_stack_[kOnStack];
  PyObject* object_stack_[kOnStack];
  std::vector<DLTensor> borrowed_heap_;
  std::vector<const DLTensor*> tensor_heap_;
  std::vector<PyObject*> object_heap_;
  DLTensor* borrowed_;
  const DLTensor** tensors_;
  PyObject** objects_;  ///< references of our own: another thread may replace a parameter during the launch
  const TensorType* first_type_ = nullptr;  ///< of the first tensor with an exchange API, else of the first
  std::vector<std::unique_ptr<TensorReading>> readings_;  ///< of what cannot be borrowed
};

}  // namespace loopwright::python
