#include "tests/differential/cuda_emulation.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace loopwright::test {
namespace {

/// The definitions of a prelude that are C++; those in PTX have theirs in emulated_cuda.inc.
std::string drop_ptx(const std::string& prelude) {
  const std::string begin = "static __device__";
  std::string out;
  for (std::size_t at = prelude.find(begin); at != std::string::npos;) {
    const std::size_t next = prelude.find(begin, at + 1);
    const std::string definition = prelude.substr(at, next == std::string::npos ? next : next - at);
    if (definition.find("asm") == std::string::npos) out += definition;
    at = next;
  }
  return out;
}

/// The memory of a block as that of the block whose thread runs.
std::string place_shared(std::string functions) {
  const std::string name = "lw_shared";
  for (std::size_t at = functions.find("__shared__"); at != std::string::npos; at = functions.find("__shared__", at)) {
    const std::size_t line = functions.rfind('\n', at) + 1, end = functions.find(';', at);
    functions.replace(line, end - line, "unsigned char* const " + name + " = lw_block_memory");
  }
  return functions;
}

std::string make_launcher(const codegen::CudaText& text, const CudaLaunch& launch, std::size_t symbols) {
  std::string call = "static void body_" + launch.entry + "(void* const* b, const long long* s) { " + launch.entry + "(";
  std::string list;
  for (std::size_t i = 0; i < text.args.size(); ++i) list += (list.empty() ? "" : ", ") + std::string("emulated::AnyPointer{b[") + std::to_string(i) + "]}";
  for (std::size_t i = 0; i < symbols; ++i) list += (list.empty() ? "" : ", ") + std::string("s[") + std::to_string(i) + "]";
  if (launch.takes_overlap) list += ", 0";
  return call + list + "); (void)b; (void)s; }\n" + "extern \"C\" int run_" + launch.entry +
         "(void* const* b, const long long* s, const unsigned* grid, const unsigned* block, unsigned "
         "cluster, int reversed, int late, const char** fault) {\n"
         "  using namespace emulated;\n  emulated::fault = nullptr; copies_wait = late != 0; emulated::body "
         "= body_" +
         launch.entry +
         ";\n"
         "  arguments = b; symbols = s; emulated::grid = {grid[0], grid[1], grid[2]}; emulated::block = "
         "{block[0], block[1], 1}; emulated::cluster = cluster;\n"
         "  for (unsigned z = 0; z < grid[2]; ++z) for (unsigned y = 0; y < grid[1]; ++y) for (unsigned x = "
         "0; x < grid[0]; x += cluster)\n"
         "    if (!run_cluster({x, y, z}, reversed)) { *fault = emulated::fault; return 1; }\n  return "
         "0;\n}\n";
}

std::size_t count_symbols(const codegen::CudaText& text) {
  std::size_t count = 0;
  for (std::size_t at = text.functions.find("const long long s_"); at != std::string::npos && at < text.functions.find(") {\n");
       at = text.functions.find("const long long s_", at + 1))
    ++count;
  return count;
}

}  // namespace

Result<EmulatedProgram> EmulatedProgram::compile(const std::vector<const codegen::CudaText*>& texts) {
  std::string functions, launchers;
  for (const codegen::CudaText* t : texts) {
    functions += t->functions;
    for (const CudaLaunch& l : t->launches) launchers += make_launcher(*t, l, count_symbols(*t));
  }
  const std::string program = codegen::cuda_program(functions);
  static int number = 0;
  const std::string base = (std::filesystem::temp_directory_path() / ("loopwright-emulated-" + std::to_string(::getpid()) + "-" + std::to_string(++number))).string();
  std::ofstream(base + ".cpp") << "#include \"" << LOOPWRIGHT_SOURCE_DIR << "/tests/differential/emulated_cuda.inc\"\n"
                               << drop_ptx(program.substr(0, program.size() - functions.size())) << place_shared(functions) << launchers;
  const char* compiler = std::getenv("CXX");
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") + " -std=c++20 -O1 -fno-strict-aliasing -ffp-contract=off -w -shared -fPIC -o " + base + ".so " +
                              base + ".cpp > " + base + ".log 2>&1";
  const int rc = std::system(command.c_str());
  std::ostringstream log;
  log << std::ifstream(base + ".log").rdbuf();
  void* library = rc == 0 ? ::dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (std::getenv("LOOPWRIGHT_KEEP_EMULATED") == nullptr)
    for (const char* suffix : {".cpp", ".so", ".log"}) std::filesystem::remove(base + suffix);
  if (library == nullptr) return Error{ErrorCode::compile_failed, "compiling emitted text for the host", log.str().substr(0, 4000), "", ""};
  return EmulatedProgram(library);
}

Status EmulatedProgram::run(const codegen::CudaText& text, const std::vector<void*>& buffers,
                            const std::vector<std::int64_t>& symbols, Turns turns) const {
  using Run = int (*)(void* const*, const std::int64_t*, const unsigned*, const unsigned*, unsigned, int, int,
                      const char**);
  for (const CudaLaunch& l : text.launches) {
    const auto run = reinterpret_cast<Run>(::dlsym(library_, ("run_" + l.entry).c_str()));
    if (run == nullptr) return Error{ErrorCode::not_found, "running " + l.entry, "the library does not have it", "", ""};
    unsigned grid[3], block[3];
    for (std::size_t i = 0; i < 3; ++i) {
      grid[i] = static_cast<unsigned>(l.grid[i].evaluate(symbols.data()));
      block[i] = static_cast<unsigned>(l.block[i]);
    }
    const char* fault = "";
    if (run(buffers.data(), symbols.data(), grid, block, static_cast<unsigned>(l.cluster[0]),
            turns.reversed ? 1 : 0, turns.late_copies ? 1 : 0, &fault) != 0)
      return Error{ErrorCode::timeout, "running " + l.entry, fault, "", ""};
  }
  return Unit{};
}

}  // namespace loopwright::test
