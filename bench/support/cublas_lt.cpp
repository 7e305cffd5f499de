#include "bench/support/cublas_lt.h"

#include "src/support/shared_library.h"

namespace loopwright::bench {
namespace {

constexpr int kTypeF32 = 0, kTypeF16 = 2, kTypeBf16 = 14, kComputeF32 = 68, kComputeTf32 = 77;
constexpr int kTransposeA = 3, kMostWorkspace = 1;
constexpr int kAsked = 32;

int type_of(DType t) { return t == DType::bf16 ? kTypeBf16 : t == DType::f16 ? kTypeF16 : kTypeF32; }

}  // namespace

Result<std::shared_ptr<const CublasLt>> CublasLt::open() {
  LW_TRY(const SharedLibrary library, SharedLibrary::open("cuBLASLt", "LOOPWRIGHT_LIBCUBLASLT",
                                                          {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"}));
  std::shared_ptr<CublasLt> out(new CublasLt);
  Table& t = out->table_;
  const bool whole = library.find("cublasLtCreate", &t.create) && library.find("cublasLtMatmulDescCreate", &t.description) &&
                     library.find("cublasLtMatmulDescSetAttribute", &t.describe) && library.find("cublasLtMatrixLayoutCreate", &t.layout) &&
                     library.find("cublasLtMatrixLayoutDestroy", &t.destroy_layout) && library.find("cublasLtMatmulDescDestroy", &t.destroy_description) &&
                     library.find("cublasLtMatmulPreferenceCreate", &t.preference) && library.find("cublasLtMatmulPreferenceSetAttribute", &t.prefer) &&
                     library.find("cublasLtMatmulPreferenceDestroy", &t.destroy_preference) &&
                     library.find("cublasLtMatmulAlgoGetHeuristic", &t.heuristics) && library.find("cublasLtMatmul", &t.matmul);
  if (!whole || t.create(&out->handle_) != 0)
    return Error{ErrorCode::unsupported, "use cuBLASLt", "an entry point is missing or no handle can be made", library.path(), "cuBLASLt 12 or 13"};
  return std::shared_ptr<const CublasLt>(std::move(out));
}

/// Column-major to the library: transpose(y) [n, m] = transpose(w stored [k, n]) * x stored [k, m].
Result<std::unique_ptr<CublasLt::Product>> CublasLt::make(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, Accuracy accuracy) const {
  std::unique_ptr<Product> p(new Product);
  p->library_ = this;
  const int type = type_of(dtype), yes = 1;
  const auto u = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  void* preference = nullptr;
  const std::size_t workspace = kWorkspaceBytes;
  int count = 0;
  p->found_.resize(kAsked);
  const bool made = table_.description(&p->description_, accuracy == Accuracy::tf32 ? kComputeTf32 : kComputeF32, kTypeF32) == 0 && table_.describe(p->description_, kTransposeA, &yes, sizeof yes) == 0 &&
                    table_.layout(&p->w_, type, u(k), u(n), k) == 0 && table_.layout(&p->x_, type, u(k), u(m), k) == 0 &&
                    table_.layout(&p->y_, type, u(n), u(m), n) == 0 && table_.preference(&preference) == 0 &&
                    table_.prefer(preference, kMostWorkspace, &workspace, sizeof workspace) == 0 &&
                    table_.heuristics(handle_, p->description_, p->w_, p->x_, p->y_, p->y_, preference, kAsked, p->found_.data(), &count) == 0;
  if (preference != nullptr) table_.destroy_preference(preference);
  if (!made || count < 1) return Error{ErrorCode::unsupported, "multiply by cuBLASLt", "it proposes no algorithm", "", ""};
  p->count_ = static_cast<std::size_t>(count);
  return p;
}

bool CublasLt::Product::run(std::size_t algorithm, const Operands& o, void* workspace, runtime::cuda::Stream stream) const {
  const float one = 1, zero = 0;
  return library_->table_.matmul(library_->handle_, description_, &one, o.w, w_, o.x, x_, &zero, o.y, y_, o.y, y_, found_[algorithm].algorithm, workspace,
                                 kWorkspaceBytes, stream) == 0;
}

CublasLt::Product::~Product() {
  for (void* l : {x_, w_, y_})
    if (l != nullptr) library_->table_.destroy_layout(l);
  if (description_ != nullptr) library_->table_.destroy_description(description_);
}

}  // namespace loopwright::bench
