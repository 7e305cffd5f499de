#include "src/codegen/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace loopwright::codegen {
namespace {

/// sm_90a and all that the emitter writes need no newer one; older ones are not tested.
constexpr int kOldestVersion = 12000;
/// nvrtcResult values that are told apart.
constexpr int kSuccess = 0;
constexpr int kCompilation = 6;

std::string drop_trailing_blanks(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

const KernelFigures* CudaProgram::find(std::string_view entry) const {
  for (const KernelFigures& kernel : report.kernels)
    if (kernel.entry == entry) return &kernel;
  return nullptr;
}

/// One nvrtcProgram. Not shared between threads.
class Nvrtc::Program {
 public:
  Program(const Table& table, const CudaSource& source) : table_(table) {
    status_ = table_.create(&handle_, source.text.c_str(), source.name.c_str(), 0, nullptr, nullptr);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle_ != nullptr) table_.destroy(&handle_);
  }

  int compile(const std::vector<std::string>& options) {
    if (status_ != kSuccess) return status_;
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    return table_.compile(handle_, static_cast<int>(texts.size()), texts.data());
  }
  std::string log() const {
    std::size_t bytes = 0;
    if (handle_ == nullptr || table_.log_bytes(handle_, &bytes) != kSuccess || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (table_.log(handle_, text.data()) != kSuccess) return {};
    return drop_trailing_blanks(std::move(text));
  }
  std::vector<std::uint8_t> cubin() const {
    std::size_t bytes = 0;
    if (table_.cubin_bytes(handle_, &bytes) != kSuccess) return {};
    std::vector<std::uint8_t> image(bytes);
    if (bytes != 0 && table_.cubin(handle_, reinterpret_cast<char*>(image.data())) != kSuccess) return {};
    return image;
  }

 private:
  const Table& table_;
  Handle handle_ = nullptr;
  int status_ = kSuccess;
};

bool Nvrtc::fill(const SharedLibrary& library, Table& table, std::string& missing) {
  const auto take = [&](const char* name, auto** function) {
    if (library.find(name, function)) return true;
    missing = name;
    return false;
  };
  return take("nvrtcVersion", &table.version) && take("nvrtcGetErrorString", &table.error_text) &&
         take("nvrtcGetNumSupportedArchs", &table.supported_count) &&
         take("nvrtcGetSupportedArchs", &table.supported) && take("nvrtcCreateProgram", &table.create) &&
         take("nvrtcDestroyProgram", &table.destroy) && take("nvrtcCompileProgram", &table.compile) &&
         take("nvrtcGetProgramLogSize", &table.log_bytes) && take("nvrtcGetProgramLog", &table.log) &&
         take("nvrtcGetCUBINSize", &table.cubin_bytes) && take("nvrtcGetCUBIN", &table.cubin);
}

Result<Nvrtc> Nvrtc::open(const std::vector<std::string>& candidates) {
  LW_TRY(const SharedLibrary library,
         SharedLibrary::open("the CUDA compiler library NVRTC", "LOOPWRIGHT_LIBNVRTC", candidates));
  Nvrtc nvrtc;
  nvrtc.path_ = library.path();
  std::string missing;
  int major = 0;
  int minor = 0;
  const auto too_old = [&](std::string found) {
    return Error{ErrorCode::unsupported, "use the CUDA compiler library NVRTC", std::move(found), nvrtc.path_,
                 "NVRTC 12.0 or newer"};
  };
  if (!fill(library, nvrtc.table_, missing)) return too_old("a library without " + missing);
  if (nvrtc.table_.version(&major, &minor) != kSuccess)
    return too_old("a library that does not tell its version");
  nvrtc.version_ = 1000 * major + 10 * minor;
  if (nvrtc.version_ < kOldestVersion) return too_old("version " + nvrtc.version_text());
  int count = 0;
  if (nvrtc.table_.supported_count(&count) == kSuccess && count > 0) {
    nvrtc.architectures_.resize(static_cast<std::size_t>(count));
    if (nvrtc.table_.supported(nvrtc.architectures_.data()) != kSuccess) nvrtc.architectures_.clear();
  }
  return nvrtc;
}

Result<const Nvrtc*> Nvrtc::shared() {
  static const Result<Nvrtc> library =
      open(toolkit_candidates({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}));
  if (!library.ok()) return library.error();
  return &library.value();
}

std::string Nvrtc::version_text() const {
  return std::to_string(version_ / 1000) + "." + std::to_string(version_ % 1000 / 10);
}

Status Nvrtc::check_arch(const std::string& arch) const {
  int number = 0;
  const bool named = arch.rfind("sm_", 0) == 0;
  if (named) std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  if (named && std::find(architectures_.begin(), architectures_.end(), number) != architectures_.end())
    return Unit{};
  std::string known;
  for (const int architecture : architectures_)
    known += (known.empty() ? "sm_" : ", sm_") + std::to_string(architecture);
  return Error{ErrorCode::unsupported_target, "compile CUDA code for `" + arch + "`",
               "NVRTC " + version_text() + " does not know it", path_, known};
}

Result<CudaProgram> Nvrtc::compile(const CudaSource& source) const {
  LW_CHECK(check_arch(source.arch));
  // The stack limit belongs to the host program, and binaries are kept in our own database alone.
  std::vector<std::string> options = {"--gpu-architecture=" + source.arch, "--std=c++17",
                                      "--ptxas-options=-v", "--modify-stack-limit=false"};
  if (version_ >= 12090) options.emplace_back("--no-cache");
  options.insert(options.end(), source.options.begin(), source.options.end());
  Program program(table_, source);
  const int status = program.compile(options);
  CudaProgram out;
  out.log = program.log();
  if (status == kSuccess) out.cubin = program.cubin();
  if (out.cubin.empty()) {
    const char* words = table_.error_text(status);
    return Error{
        ErrorCode::compile_failed, "compile " + source.name + " for " + source.arch,
        std::string("NVRTC ") + version_text() + ": " + (words != nullptr ? words : "no machine code"),
        out.log, status == kCompilation ? "" : "valid options and free memory"};
  }
  out.report = parse_ptxas_log(out.log);
  return out;
}

}  // namespace loopwright::codegen
