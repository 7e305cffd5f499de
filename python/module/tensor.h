// Any Python tensor as a DLTensor.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "loopwright/base.h"
#include "python/module/dlpack.h"

namespace loopwright::python {

/// Highest rank of a graph's tensors.
inline constexpr int kMaxRank = 8;

/// Which types of tensors there are, by how they are read.
struct TensorType {
  PyTypeObject* type = nullptr;
  const DLPackExchangeAPI* api = nullptr;  ///< null: read through `__dlpack__` or the buffer protocol
  bool is_torch = false;
  bool has_host_buffer = false;  ///< read through the buffer protocol, not `__dlpack__`
};
/// Looked up once for each type. Null with a Python exception for a type that is no tensor, or a subclass of
/// torch.Tensor with behaviour of its own, whose meaning plain memory does not carry.
const TensorType* find_tensor_type(PyObject* object);

/// A tensor read for one call. Borrowed readings hold nothing; the others give back what they hold.
class TensorReading {
 public:
  TensorReading() = default;
  TensorReading(const TensorReading&) = delete;
  TensorReading& operator=(const TensorReading&) = delete;
  ~TensorReading() { release(); }
  /// False with a Python exception. With `writable`, read-only memory is refused.
  bool read(PyObject* object, const TensorType& type, bool writable);
  const DLTensor& tensor() const { return tensor_; }
  void* data() const { return static_cast<char*>(tensor_.data) + tensor_.byte_offset; }

 private:
  bool read_capsule(PyObject* object, bool writable);
  bool read_buffer(PyObject* object, bool writable);
  void release();

  DLTensor tensor_{};
  PyObject* capsule_ = nullptr;
  bool has_buffer_ = false;
  Py_buffer buffer_;                                  ///< valid when has_buffer_
  std::int64_t shape_[kMaxRank], strides_[kMaxRank];  ///< of a buffer
};

DLDataType to_dlpack(DType dtype);
/// `f32`, or `complex64 (code 5)` for a type that no graph has.
std::string describe(DLDataType dtype);
std::string describe(DLDevice device);

}  // namespace loopwright::python
