// CUDA C++ text to machine code through NVRTC, which is opened when first needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "src/support/shared_library.h"

namespace loopwright::codegen {

/// What ptxas says of one kernel.
struct KernelFigures {
  std::string entry;
  std::int32_t registers = 0;
  std::int32_t barriers = 0;
  std::int64_t shared_bytes = 0;  ///< static
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  bool operator==(const KernelFigures&) const = default;
};

/// A warning or advice of ptxas, such as `C7510` for a wgmma pipeline that was serialised.
struct PtxasDiagnostic {
  std::string code;   ///< `C7510`; empty when the line has none
  std::string entry;  ///< the kernel it names; empty when it names none
  std::string text;   ///< the whole line
  bool operator==(const PtxasDiagnostic&) const = default;
};

struct PtxasReport {
  std::vector<KernelFigures> kernels;  ///< sorted by entry
  std::vector<PtxasDiagnostic> diagnostics;
};
/// Reads what `--ptxas-options=-v` prints; lines it does not know are passed over.
PtxasReport parse_ptxas_log(std::string_view log);

/// One program: any number of `extern "C"` kernels. Small kernels cost a tenth each when some dozens share a program.
struct CudaSource {
  std::string name = "kernel.cu";  ///< for messages
  std::string text;
  std::string arch;                  ///< `sm_90a`
  std::vector<std::string> options;  ///< beyond those that always are given
};

struct CudaProgram {
  std::vector<std::uint8_t> cubin;  ///< with every kernel of the source
  std::string log;
  PtxasReport report;

  const KernelFigures* find(std::string_view entry) const;
};

/// NVRTC of this process. Every member may be called from many threads at once; compilations run side by side.
class Nvrtc {
 public:
  /// The library, opened at the first call and kept. not_found says where it was looked for; unsupported when it is
  /// older than 12.0. LOOPWRIGHT_LIBNVRTC names a file to be used instead.
  static Result<const Nvrtc*> shared();
  /// A library of its own, for tests of what is said when none is there.
  static Result<Nvrtc> open(const std::vector<std::string>& candidates);

  /// compile_failed with the compiler's words; unsupported_target for an architecture that this version cannot do.
  Result<CudaProgram> compile(const CudaSource& source) const;
  int version() const { return version_; }  ///< 1000 * major + 10 * minor, as the driver's
  std::string version_text() const;         ///< `13.0`
  const std::string& path() const { return path_; }

 private:
  Nvrtc() = default;
  class Program;
  using Handle = void*;
  struct Table {
    int (*version)(int*, int*);
    const char* (*error_text)(int);
    int (*supported_count)(int*);
    int (*supported)(int*);
    int (*create)(Handle*, const char* text, const char* name, int headers, const char* const* header_texts,
                  const char* const* header_names);
    int (*destroy)(Handle*);
    int (*compile)(Handle, int options, const char* const* option_texts);
    int (*log_bytes)(Handle, std::size_t*);
    int (*log)(Handle, char*);
    int (*cubin_bytes)(Handle, std::size_t*);
    int (*cubin)(Handle, char*);
  };
  static bool fill(const SharedLibrary& library, Table& table, std::string& missing);
  Status check_arch(const std::string& arch) const;

  Table table_{};
  int version_ = 0;
  std::vector<int> architectures_;  ///< 90 for sm_90 and sm_90a
  std::string path_;
};

}  // namespace loopwright::codegen
