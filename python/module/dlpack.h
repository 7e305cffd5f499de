// The parts of the DLPack 1.3 binary interface that are used here, declared by their published layout.
#pragma once

#include <cstdint>

namespace loopwright::python {

enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
struct DLDevice {
  DLDeviceType type;
  std::int32_t index;
};
enum DLTypeCode : std::uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< elements; null = dense row-major
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLPackVersion {
  std::uint32_t major, minor;
};
inline constexpr std::uint64_t kDLReadOnly = 1;
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
};

/// What a tensor type offers as `__dlpack_c_exchange_api__`. Functions return 0, or -1 with a Python exception.
struct DLPackExchangeAPI {
  DLPackVersion version;
  DLPackExchangeAPI* previous;
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*export_managed)(void* object, DLManagedTensorVersioned** out);
  int (*import_managed)(DLManagedTensorVersioned* tensor,
                        void** object);        ///< takes `tensor`, gives a new reference
  int (*borrow)(void* object, DLTensor* out);  ///< shape and strides live as long as the object is unchanged
  int (*current_stream)(DLDeviceType type, std::int32_t index, void** stream);
};

}  // namespace loopwright::python
