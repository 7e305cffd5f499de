#include "python/module/outputs.h"

#include <utility>

namespace loopwright::python {
namespace {

/// First byte and behind the last of a tensor with strides that are not negative; equal when it is empty.
std::pair<const char*, const char*> span_of(const DLTensor& tensor) {
  const char* first = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  std::int64_t last = 0, dense = 1;
  for (int d = tensor.ndim; d-- > 0;) {
    if (tensor.shape[d] == 0) return {first, first};
    last += (tensor.shape[d] - 1) * (tensor.strides != nullptr ? tensor.strides[d] : dense);
    dense *= tensor.shape[d];
  }
  return {first, first + (last + 1) * ((tensor.dtype.bits + 7) / 8)};
}

void set_allocation_error(void*, const char* kind, const char* message) {
  PyErr_Format(PyExc_MemoryError, "output: %s: %s", kind, message);
}

}  // namespace

bool overlap(const DLTensor& a, const DLTensor& b) {
  const auto [a0, a1] = span_of(a);
  const auto [b0, b1] = span_of(b);
  return a0 != a1 && b0 != b1 && a0 < b1 && b0 < a1;
}

bool Outputs::take(PyObject* out, void** pointers) {
  const std::size_t count = objects_.size();
  const bool is_sequence = PyTuple_Check(out) || PyList_Check(out);
  const std::size_t given = is_sequence ? static_cast<std::size_t>(PySequence_Fast_GET_SIZE(out)) : 1;
  if (given != count) {
    PyErr_Format(PyExc_ValueError, "out: %zu tensors; there are %zu outputs", given, count);
    return false;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!take_one(i, is_sequence ? PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i)) : out,
                  pointers[i]))
      return false;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < inputs_.count() + a; ++b) {
      const DLTensor& other =
          b < inputs_.count() ? *inputs_.tensors()[b] : readings_[b - inputs_.count()]->tensor();
      if (!overlap(readings_[a]->tensor(), other)) continue;
      PyErr_Format(PyExc_ValueError, "out: the output `%s` shares memory with another tensor of the call",
                   traced_.program.spec().tensors[inputs_.count() + a].name.c_str());
      return false;
    }
  }
  return true;
}

bool Outputs::take_one(std::size_t i, PyObject* given, void*& pointer) {
  const TensorType* type = find_tensor_type(given);
  if (type == nullptr) return false;
  readings_.push_back(std::make_unique<TensorReading>());
  if (!readings_.back()->read(given, *type, true)) return false;
  const DLTensor& tensor = readings_.back()->tensor();
  if (const std::string wanted = traced_.program.check_output(i, tensor, symbols_); !wanted.empty()) {
    std::string shape;
    for (int d = 0; d < tensor.ndim; ++d) shape += (d > 0 ? ", " : "") + std::to_string(tensor.shape[d]);
    PyErr_Format(PyExc_ValueError, "out: the output `%s` is %s; given is %s[%s] on %s%s",
                 traced_.program.spec().tensors[inputs_.count() + i].name.c_str(), wanted.c_str(),
                 describe(tensor.dtype).c_str(), shape.c_str(), describe(tensor.device).c_str(),
                 tensor.strides != nullptr ? " (or its strides are not dense)" : "");
    return false;
  }
  objects_[i] = nb::borrow(given);
  pointer = readings_.back()->data();
  return true;
}

bool Outputs::make(void** pointers) {
  const TensorType* type = inputs_.first_type();
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (type != nullptr && type->api != nullptr ? !make_by_api(*type, i, pointers[i])
                                                : !make_by_python(i, pointers[i]))
      return false;
  return true;
}

bool Outputs::make_by_api(const TensorType& type, std::size_t i, void*& pointer) {
  std::int64_t shape[kMaxRank];
  traced_.program.output_shape(i, symbols_, shape);
  DLTensor prototype{nullptr,
                     traced_.program.device(),
                     traced_.program.output_rank(i),
                     traced_.program.output_dtype(i),
                     shape,
                     nullptr,
                     0};
  if (type.api->allocate(&prototype, &managed_[i], nullptr, set_allocation_error) != 0) return false;
  pointer = static_cast<char*>(managed_[i]->tensor.data) + managed_[i]->tensor.byte_offset;
  return true;
}

bool Outputs::make_by_python(std::size_t i, void*& pointer) {
  std::int64_t shape[kMaxRank];
  traced_.program.output_shape(i, symbols_, shape);
  nb::list sizes;
  for (int d = 0; d < traced_.program.output_rank(i); ++d) sizes.append(shape[d]);
  nb::object like = nb::none();
  if (inputs_.count() > 0) like = nb::borrow(inputs_.object(0));
  const std::string dtype(name(traced_.program.spec().tensors[inputs_.count() + i].dtype));
  const nb::object made = nb::module_::import_("loopwright._arrays").attr("allocate")(like, sizes, dtype);
  return take_one(i, made.ptr(), pointer);
}

bool Outputs::wrap() {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (managed_[i] == nullptr) continue;
    void* object = nullptr;
    DLManagedTensorVersioned* made = std::exchange(managed_[i], nullptr);
    if (inputs_.first_type()->api->import_managed(made, &object) != 0) return false;
    objects_[i] = nb::steal(static_cast<PyObject*>(object));
  }
  return true;
}

}  // namespace loopwright::python
