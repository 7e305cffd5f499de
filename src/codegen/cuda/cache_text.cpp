#include "src/codegen/cuda/cache_text.h"

namespace loopwright::codegen {
namespace {

constexpr const char* kFunctionOfCaches = "static __device__ __forceinline__ ";

/// A type of loads: its components and how an instruction names and holds one of them.
struct LoadedType {
  const char* type;
  int components;
  const char* suffix;
  const char* constraint;
};
constexpr LoadedType kLoadedTypes[] = {{"uint4", 4, "u32", "r"}, {"uint2", 2, "u32", "r"}, {"unsigned", 1, "u32", "r"}, {"unsigned short", 1, "u16", "h"},
                                       {"float4", 4, "f32", "f"}, {"float2", 2, "f32", "f"}, {"float", 1, "f32", "f"}};

std::string policy_text(const std::string& policy) {
  return std::string(kFunctionOfCaches) + "unsigned long long lw_policy_" + policy + "() {\n  unsigned long long p; asm(\"createpolicy.fractional.L2::" + policy +
         ".b64 %0, 1.0;\" : \"=l\"(p)); return p; }\n";
}

std::string load_text(const std::string& policy, const LoadedType& t) {
  const bool hints = policy != "no_allocate", once = policy != "evict_last";
  std::string list, outputs;
  for (int i = 0; i < t.components; ++i) {
    list += (i ? ", %" : "%") + std::to_string(i);
    outputs += std::string(i ? ", " : "") + "\"=" + t.constraint + "\"(r" + (t.components > 1 ? std::string(".") + "xyzw"[i] : "") + ")";
  }
  const std::string at = "[%" + std::to_string(t.components) + "]", hint = hints ? ", %" + std::to_string(t.components + 1) : "";
  return std::string(kFunctionOfCaches) + t.type + " lw_load_" + policy + "(const " + t.type + "* p) {\n  " + t.type + " r; asm(\"ld.global.nc" +
         (once ? ".L1::no_allocate" : "") + (hints ? ".L2::cache_hint" : "") + (t.components > 1 ? ".v" + std::to_string(t.components) : "") + "." + t.suffix + " " +
         (t.components > 1 ? "{" + list + "}" : list) + ", " + at + hint + ";\" : " + outputs + " : \"l\"(__cvta_generic_to_global(p))" +
         (hints ? ", \"l\"(lw_policy_" + policy + "())" : "") + "); return r; }\n";
}

std::string row_text(const std::string& policy) {
  return std::string(kFunctionOfCaches) + "void lw_copy_row_" + policy + "(unsigned to, const void* from, unsigned bytes, unsigned barrier) {\n" +
         "  asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;\"\n" +
         "    : : \"r\"(to), \"l\"(__cvta_generic_to_global(from)), \"r\"(bytes), \"r\"(barrier), \"l\"(lw_policy_" + policy + "()) : \"memory\"); }\n";
}

}  // namespace

std::string cache_prelude(std::string_view text) {
  std::string out;
  for (const std::string policy : {"no_allocate", "evict_first", "evict_last"}) {
    const bool loads = text.find("lw_load_" + policy + "(") != std::string_view::npos, rows = text.find("lw_copy_row_" + policy + "(") != std::string_view::npos;
    if ((loads && policy != "no_allocate") || rows) out += policy_text(policy);
    for (const LoadedType& t : kLoadedTypes)
      if (loads) out += load_text(policy, t);
    if (rows) out += row_text(policy);
  }
  return out;
}

}  // namespace loopwright::codegen
