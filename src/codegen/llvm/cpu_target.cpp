#include "src/codegen/llvm/cpu_target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace loopwright::codegen {
namespace {

constexpr const char* kWorks = "`cpu:x86-64-v2`, `cpu:x86-64-v3`, `cpu:x86-64-v4`, or `cpu:<name>:+<feature>,...`";

/// The features that change generated code, sorted. Others (virtualisation, cryptography, ...) would only make two equal
/// machines look different.
constexpr std::array kFeatures = {
    "avx",      "avx2",       "avx512bf16", "avx512bw", "avx512cd",   "avx512dq", "avx512f", "avx512fp16",
    "avx512vbmi", "avx512vl", "avx512vnni", "avxvnni",  "bmi",        "bmi2",     "f16c",    "fma",
    "lzcnt",    "movbe",      "popcnt",     "sse3",     "sse4.1",     "sse4.2",   "ssse3"};
constexpr std::array kLevels = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

Error make_unsupported(std::string asked, std::string found) {
  return Error{ErrorCode::unsupported_target, std::move(asked), std::move(found), "", kWorks};
}

template <class List>
bool contains(const List& list, std::string_view word) {
  for (const char* item : list) {
    if (item == word) return true;
  }
  return false;
}

/// Fills what follows from base and features.
Status fill_limits(CpuTarget& t) {
  initialise_llvm();
  std::string message;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(kTriple, message);
  if (llvm_target == nullptr) return make_unsupported("compiling for an x86-64 CPU", "LLVM says: " + message);
  const std::unique_ptr<llvm::MCSubtargetInfo> info(llvm_target->createMCSubtargetInfo(kTriple, t.base, t.features));
  if (info == nullptr) return make_unsupported("target `" + t.text + "`", "LLVM does not know it");
  if (!info->checkFeatures("+sse4.2")) return make_unsupported("target `" + t.text + "`", "it has no SSE4.2");
  t.fma = info->checkFeatures("+fma");
  t.f16c = info->checkFeatures("+f16c");
  const bool avx512 = info->checkFeatures("+avx512f");
  t.vector_bytes = avx512 ? 64 : info->checkFeatures("+avx") ? 32 : 16;
  t.vector_registers = avx512 ? 32 : 16;
  return Unit{};
}

}  // namespace

Result<CpuTarget> host_cpu_target() {
  const llvm::Triple triple(llvm::sys::getProcessTriple());
  if (triple.getArch() != llvm::Triple::x86_64) {
    return make_unsupported("compiling for this machine", "it is a `" + triple.getArchName().str() + "`");
  }
  const auto found = llvm::sys::getHostCPUFeatures();
  std::string features;
  for (const char* feature : kFeatures) {
    const auto it = found.find(feature);
    if (it == found.end() || !it->second) continue;
    if (!features.empty()) features += ',';
    features += std::string("+") + feature;
  }
  return parse_cpu_target("cpu:" + llvm::sys::getHostCPUName().str() + ":" + features);
}

Result<CpuTarget> parse_cpu_target(std::string_view text) {
  CpuTarget t;
  t.text = std::string(text);
  const std::string asked = "target `" + t.text + "`";
  if (text.substr(0, 4) != "cpu:") return make_unsupported(asked, "it does not begin with `cpu:`");
  text.remove_prefix(4);
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    if (!contains(kLevels, text)) return make_unsupported(asked, "no level has this name");
    t.base = std::string(text);
    t.tune = "generic";
  } else {
    t.tune = std::string(text.substr(0, colon));
    t.base = "x86-64";
    if (contains(kLevels, t.tune)) t.base = std::exchange(t.tune, "generic");
    t.features = std::string(text.substr(colon + 1));
    for (std::size_t at = 0; at < t.features.size();) {
      const auto end = std::min(t.features.find(',', at), t.features.size());
      const std::string word = t.features.substr(at, end - at);
      if (word.size() < 2 || word[0] != '+' || !contains(kFeatures, word.substr(1))) {
        return make_unsupported(asked, "`" + word + "` is not a known feature");
      }
      at = end + 1;
    }
  }
  LW_CHECK(fill_limits(t));
  return t;
}

}  // namespace loopwright::codegen
