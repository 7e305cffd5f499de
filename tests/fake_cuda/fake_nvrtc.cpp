// A library with the part of NVRTC's interface that Loopwright uses, for the fake driver. LOOPWRIGHT_LIBNVRTC names it.
//
// It does not compile: every kernel of a program becomes the fake driver's kernel that LOOPWRIGHT_FAKE_KERNEL names
// (`doubles` when it is not set). So only graphs that compute what that kernel does come out right.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>

namespace {

struct Program {
  std::string text, cubin;
};

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  const char* named = std::getenv("LOOPWRIGHT_FAKE_NVRTC_VERSION");
  *major = named != nullptr ? std::atoi(named) : 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "fake error"; }
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 90;
  return 0;
}
int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*, const char* const*) {
  *program = new Program{text, {}};
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void* handle, int, const char* const*) {
  auto& program = *static_cast<Program*>(handle);
  const char* kernel = std::getenv("LOOPWRIGHT_FAKE_KERNEL");
  program.cubin = "fake cubin:";
  const std::regex entry(R"(__global__[^{;]*?(\w+)\s*\((?!\d))");
  for (std::sregex_iterator it(program.text.begin(), program.text.end(), entry), end; it != end; ++it) {
    const auto begin = (*it)[0].second, close = std::find(begin, program.text.cend(), ')');
    const auto parameters = begin == close ? 0 : 1 + std::count(begin, close, ',');
    program.cubin += " " + (*it)[1].str() + "=" + (kernel != nullptr ? kernel : "doubles") + "/" + std::to_string(parameters);
  }
  return 0;
}
int nvrtcGetProgramLogSize(void*, std::size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}
int nvrtcGetCUBINSize(void* handle, std::size_t* bytes) {
  *bytes = static_cast<Program*>(handle)->cubin.size() + 1;
  return 0;
}
int nvrtcGetCUBIN(void* handle, char* cubin) {
  const std::string& from = static_cast<Program*>(handle)->cubin;
  std::memcpy(cubin, from.c_str(), from.size() + 1);
  return 0;
}
}
