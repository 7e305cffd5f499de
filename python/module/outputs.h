// The outputs of one call, and which tensors share memory.
#pragma once

#include <memory>
#include <vector>

#include "python/module/traced.h"

namespace loopwright::python {

/// Whether two tensors with strides that are not negative share a byte.
bool overlap(const DLTensor& a, const DLTensor& b);

/// The outputs of one call: given by the caller, or made by whoever made the first input.
class Outputs {
 public:
  Outputs(const Traced& traced, const Inputs& inputs, const std::int64_t* symbols)
      : traced_(traced),
        inputs_(inputs),
        symbols_(symbols),
        objects_(traced.program.output_count()),
        managed_(objects_.size()) {}
  ~Outputs() {
    for (DLManagedTensorVersioned* m : managed_)
      if (m != nullptr && m->deleter != nullptr) m->deleter(m);
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// False with a Python exception.
  bool take(PyObject* out, void** pointers);
  bool make(void** pointers);
  /// After the launch: the objects to return, in order of the program's outputs.
  bool wrap();
  const nb::object& object(std::size_t i) const { return objects_[i]; }

 private:
  bool take_one(std::size_t i, PyObject* given, void*& pointer);
  bool make_by_api(const TensorType& type, std::size_t i, void*& pointer);
  bool make_by_python(std::size_t i, void*& pointer);

  const Traced& traced_;
  const Inputs& inputs_;
  const std::int64_t* symbols_;
  std::vector<nb::object> objects_;
  std::vector<DLManagedTensorVersioned*> managed_;  ///< made, and not yet wrapped
  std::vector<std::unique_ptr<TensorReading>> readings_;
};

}  // namespace loopwright::python
