// cuBLASLt as a contender, opened at run time: y = x * transpose(w), row-major, 16-bit or f32 with f32 sums.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "loopwright/base.h"
#include "src/runtime/cuda_driver.h"

namespace loopwright::bench {

class CublasLt {
 public:
  /// not_found without the library. LOOPWRIGHT_LIBCUBLASLT names a file.
  static Result<std::shared_ptr<const CublasLt>> open();

  struct Operands {
    const void* x;
    const void* w;
    void* y;
  };
  /// One product with the algorithms that the library proposes for it (32 asked for), its own choice first.
  class Product {
   public:
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    ~Product();
    std::size_t algorithms() const { return count_; }
    bool run(std::size_t algorithm, const Operands& operands, void* workspace, runtime::cuda::Stream stream) const;

   private:
    friend class CublasLt;
    struct Heuristic {  ///< cublasLtMatmulHeuristicResult_t
      std::uint64_t algorithm[8];
      std::size_t workspace_bytes;
      int state;
      float waves;
      int reserved[4];
    };
    Product() = default;
    const CublasLt* library_ = nullptr;
    void* description_ = nullptr;
    void* x_ = nullptr;
    void* w_ = nullptr;
    void* y_ = nullptr;
    std::vector<Heuristic> found_;
    std::size_t count_ = 0;
  };
  Result<std::unique_ptr<Product>> make(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, Accuracy accuracy = Accuracy::strict) const;
  static constexpr std::size_t kWorkspaceBytes = 32 << 20;

 private:
  struct Table {
    int (*create)(void**);
    int (*description)(void**, int compute, int scale);
    int (*describe)(void*, int attribute, const void*, std::size_t);
    int (*layout)(void**, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
    int (*destroy_layout)(void*);
    int (*destroy_description)(void*);
    int (*preference)(void**);
    int (*prefer)(void*, int attribute, const void*, std::size_t);
    int (*destroy_preference)(void*);
    int (*heuristics)(void*, void*, void*, void*, void*, void*, void*, int, Product::Heuristic*, int*);
    int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*,
                  void*, const void*, void*, std::size_t, runtime::cuda::Stream);
  };
  CublasLt() = default;
  Table table_{};
  void* handle_ = nullptr;
};

}  // namespace loopwright::bench
