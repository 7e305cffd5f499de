#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/codegen/cuda/emit.h"
#include "src/codegen/cuda/nvrtc.h"

namespace loopwright::codegen {
namespace {

constexpr const char* kEntry = "kernel";

struct Compiled {
  CudaText text;
  CudaProgram program;
};

Result<Compiled> compile(const ir::Kernel& kernel, const Target& target) {
  LW_TRY(CudaText text, emit_cuda(kernel, target, kEntry));
  LW_TRY(const Nvrtc* nvrtc, Nvrtc::shared());
  LW_TRY(CudaProgram program, nvrtc->compile({kernel.name + ".cu", cuda_program(text.functions), target.arch, {}}));
  return Compiled{std::move(text), std::move(program)};
}

/// cuobjdump of the toolkit that CUDA_HOME names, of the usual place, or of the search path.
std::string find_cuobjdump() {
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& folder : {std::string(home != nullptr ? home : ""), std::string("/usr/local/cuda")})
    if (!folder.empty() && std::filesystem::exists(folder + "/bin/cuobjdump")) return folder + "/bin/cuobjdump";
  return "cuobjdump";
}

Result<std::string> run_program(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  std::string out;
  std::array<char, 4096> chunk{};
  while (pipe != nullptr) {
    const std::size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe);
    if (n == 0) break;
    out.append(chunk.data(), n);
  }
  if (pipe != nullptr && ::pclose(pipe) == 0 && !out.empty()) return out;
  return Error{ErrorCode::not_found, "showing machine code", "`" + command + "` gives nothing", "",
               "cuobjdump of the CUDA toolkit in CUDA_HOME or on the search path"};
}

}  // namespace

Result<std::string> cuda_assembly(const ir::Kernel& kernel, const Target& target) {
  LW_TRY(const Compiled compiled, compile(kernel, target));
  std::string head;
  for (const KernelFigures& k : compiled.program.report.kernels)
    head += "// " + k.entry + ": " + std::to_string(k.registers) + " registers, " + std::to_string(k.shared_bytes) +
            " bytes shared, " + std::to_string(k.spill_store_bytes) + " bytes spilled, " + std::to_string(k.stack_bytes) + " bytes stack\n";
  const std::string file = (std::filesystem::temp_directory_path() / ("loopwright-" + std::to_string(::getpid()) + ".cubin")).string();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(compiled.program.cubin.data()), static_cast<std::streamsize>(compiled.program.cubin.size()));
  const Result<std::string> text = run_program(find_cuobjdump() + " -sass " + file);
  std::filesystem::remove(file);
  if (!text.ok()) return text.error();
  return head + *text;
}

Result<Artifact> compile_cuda(const ir::Kernel& kernel, const Target& target) {
  LW_TRY(Compiled compiled, compile(kernel, target));
  Artifact out;
  out.target = target.text();
  for (const ir::SymbolParam& s : kernel.symbols) out.symbols.push_back(s.symbol.name);
  out.args = std::move(compiled.text.args);
  out.guard = kernel.guard;
  out.launches.assign(compiled.text.launches.begin(), compiled.text.launches.end());
  out.image = std::move(compiled.program.cubin);
  return out;
}

}  // namespace loopwright::codegen
