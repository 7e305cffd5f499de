#include "python/module/tensor.h"

#include <cstring>
#include <deque>

namespace loopwright::python {
namespace {

constexpr int kMaxBits = 64;

bool is_named(PyObject* type, const char* attribute, std::initializer_list<const char*> names) {
  PyObject* value = PyObject_GetAttrString(type, attribute);
  const char* text = value != nullptr ? PyUnicode_AsUTF8(value) : nullptr;
  bool found = false;
  for (const char* name : names) found = found || (text != nullptr && std::strcmp(text, name) == 0);
  Py_XDECREF(value);
  PyErr_Clear();
  return found;
}

/// False with an exception for a torch type that is neither a tensor nor a parameter.
bool check_torch_type(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (is_named(object, "__module__", {"torch", "torch.nn.parameter"}) &&
      is_named(object, "__qualname__", {"Tensor", "Parameter", "Buffer"}))
    return true;
  PyErr_Format(PyExc_TypeError,
               "%s is a subclass of torch.Tensor with behaviour of its own; plain tensors work",
               type->tp_name);
  return false;
}

bool fill_type(TensorType& found, PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  found.is_torch = PyObject_HasAttrString(object, "__torch_dispatch__");
  if (found.is_torch && !check_torch_type(type)) return false;
  if (PyObject* capsule = PyObject_GetAttrString(object, "__dlpack_c_exchange_api__")) {
    const char* name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : nullptr;
    if (name != nullptr)
      found.api = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule, name));
    if (found.api != nullptr && found.api->version.major != 1) found.api = nullptr;
    Py_DECREF(capsule);
  }
  PyErr_Clear();
  // CuPy's type has a buffer as well, which refuses memory of a GPU.
  found.has_host_buffer = type->tp_as_buffer != nullptr && type->tp_as_buffer->bf_getbuffer != nullptr &&
                          !PyObject_HasAttrString(object, "__cuda_array_interface__");
  if (found.api != nullptr || PyObject_HasAttrString(object, "__dlpack__") || type->tp_as_buffer != nullptr)
    return true;
  PyErr_Format(PyExc_TypeError, "%s is no tensor: it has neither __dlpack__ nor a buffer", type->tp_name);
  return false;
}

DLDataType parse_format(const char* format, Py_ssize_t item_bytes) {
  const auto bits = static_cast<std::uint8_t>(item_bytes * 8);
  if (format == nullptr) return {kDLUInt, 8, 1};
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return {255, bits, 1};
  if (*format == '?') return {kDLBool, bits, 1};
  if (std::strchr("efd", *format)) return {kDLFloat, bits, 1};
  if (std::strchr("bhilqn", *format)) return {kDLInt, bits, 1};
  if (std::strchr("BHILQN", *format)) return {kDLUInt, bits, 1};
  return {255, bits, 1};
}

}  // namespace

const TensorType* find_tensor_type(PyObject* object) {
  // Types live as long as the process here: each is kept, and there are few.
  static std::deque<TensorType> known;
  for (const TensorType& t : known)
    if (t.type == Py_TYPE(object)) return &t;
  TensorType found;
  if (!fill_type(found, Py_TYPE(object))) return nullptr;
  found.type = Py_TYPE(object);
  Py_INCREF(found.type);
  return &known.emplace_back(found);
}

bool TensorReading::read(PyObject* object, const TensorType& type, bool writable) {
  release();
  if (type.api != nullptr) return type.api->borrow(object, &tensor_) == 0;
  // A buffer first: NumPy gives read-only memory that way, and it is the cheaper of the two.
  if (type.has_host_buffer) return read_buffer(object, writable);
  return read_capsule(object, writable);
}

bool TensorReading::read_capsule(PyObject* object, bool writable) {
  // The stream 1 is CUDA's legacy default stream, on which such a call is launched; it waits for what the producer did.
  static PyObject* const method = PyUnicode_InternFromString("__dlpack__");
  capsule_ = PyObject_CallMethodNoArgs(object, method);
  if (capsule_ == nullptr) return false;
  if (void* versioned = PyCapsule_IsValid(capsule_, "dltensor_versioned")
                            ? PyCapsule_GetPointer(capsule_, "dltensor_versioned")
                            : nullptr) {
    const auto* managed = static_cast<DLManagedTensorVersioned*>(versioned);
    if (writable && (managed->flags & kDLReadOnly) != 0) {
      PyErr_SetString(PyExc_BufferError, "its memory is read-only");
      return false;
    }
    tensor_ = managed->tensor;
    return true;
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule_, "dltensor"));
  if (managed == nullptr) return false;
  tensor_ = managed->tensor;
  return true;
}

bool TensorReading::read_buffer(PyObject* object, bool writable) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) !=
      0)
    return false;
  has_buffer_ = true;
  if (buffer_.ndim > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "it has %d dimensions; a graph's tensors have at most %d", buffer_.ndim,
                 kMaxRank);
    return false;
  }
  for (int d = 0; d < buffer_.ndim; ++d) {
    shape_[d] = buffer_.shape[d];
    strides_[d] = buffer_.itemsize == 0 ? 0 : buffer_.strides[d] / buffer_.itemsize;
    if (buffer_.itemsize != 0 && buffer_.strides[d] % buffer_.itemsize != 0) {
      PyErr_SetString(PyExc_ValueError, "its strides are no multiples of an element's size");
      return false;
    }
  }
  tensor_ = {buffer_.buf,
             {kDLCPU, 0},
             buffer_.ndim,
             parse_format(buffer_.format, buffer_.itemsize),
             shape_,
             strides_,
             0};
  return true;
}

void TensorReading::release() {
  Py_CLEAR(capsule_);  // never renamed: its own destructor gives the tensor back
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
}

DLDataType to_dlpack(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(size_bytes(dtype) * 8);
  if (dtype == DType::boolean) return {kDLBool, bits, 1};
  if (dtype == DType::bf16) return {kDLBfloat, bits, 1};
  if (dtype == DType::u8) return {kDLUInt, bits, 1};
  return {is_float(dtype) ? kDLFloat : kDLInt, bits, 1};
}

std::string describe(DLDataType dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType known = to_dlpack(static_cast<DType>(i));
    if (known.code == dtype.code && known.bits == dtype.bits && dtype.lanes == 1)
      return std::string(name(static_cast<DType>(i)));
  }
  const char* kind = dtype.code == kDLInt    ? "int"
                     : dtype.code == kDLUInt ? "uint"
                     : dtype.code == 5       ? "complex"
                                             : "";
  if (*kind != '\0' && dtype.bits <= 2 * kMaxBits) return kind + std::to_string(dtype.bits);
  return "a dtype that no graph has (DLPack code " + std::to_string(dtype.code) + ")";
}

std::string describe(DLDevice device) {
  switch (device.type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda:" + std::to_string(device.index);
    case kDLCUDAHost: return "pinned host memory";
    default: return "device type " + std::to_string(device.type);
  }
}

}  // namespace loopwright::python
