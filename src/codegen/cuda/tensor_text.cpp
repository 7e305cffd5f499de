#include "src/codegen/cuda/tensor_text.h"

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace loopwright::codegen {
namespace {

constexpr std::string_view kFunction = "static __device__ __forceinline__ ";

/// Always there when anything of this file is.
constexpr std::string_view kCommon = R"(struct __align__(64) lw_tensor_map { unsigned long long words[16]; };
static __device__ __forceinline__ unsigned lw_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void lw_prefetch_map(const lw_tensor_map* map) { asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory"); }
static __device__ __forceinline__ void lw_barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void lw_barrier_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  asm volatile("fence.proxy.async;" : : : "memory");
}
static __device__ __forceinline__ void lw_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void lw_release(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
static __device__ __forceinline__ void lw_wait(unsigned barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  } while (!done);
}
static __device__ __forceinline__ unsigned long long lw_descriptor(unsigned address, unsigned leading) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 | 64ull << 32 | 1ull << 62;
}
static __device__ __forceinline__ int lw_unknown(int value) { asm volatile("" : "+r"(value)); return value; }
static __device__ __forceinline__ void lw_store_matrices(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(row), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
static __device__ __forceinline__ void lw_outgoing_fence() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
static __device__ __forceinline__ void lw_outgoing_commit() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
static __device__ __forceinline__ void lw_outgoing_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory"); }
static __device__ __forceinline__ void lw_products_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
static __device__ __forceinline__ void lw_products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
)";

/// Names that begin with `stem` and are called, without it.
std::set<std::string> find_calls(std::string_view text, std::string_view stem) {
  std::set<std::string> out;
  for (std::size_t at = text.find(stem); at != std::string_view::npos; at = text.find(stem, at + 1)) {
    std::size_t end = at + stem.size();
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    if (end < text.size() && text[end] == '(') out.emplace(text.substr(at + stem.size(), end - at - stem.size()));
  }
  return out;
}

/// `%0, %1, ...`.
std::string operands(std::int64_t count) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out += (i ? ", %" : "%") + std::to_string(i);
  return out;
}

/// `"+f"(d[0]), ...`: registers that are read and written, or with "=f" written.
std::string accumulators(std::int64_t count, const std::string& way = "+f") {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out += std::string(i ? ", " : "") + "\"" + way + "\"(d[" + std::to_string(i) + "])";
  return out;
}

/// `bf16_128_01`: dtype (`tf32`: of f32, whose summands lie side by side), columns, which operands lie with their summands apart; and `z` where the sum begins with it.
std::string product_text(const std::string& name) {
  const std::size_t first = name.find('_'), second = name.rfind('_');
  const std::string dtype = name.substr(0, first), columns = name.substr(first + 1, second - first - 1), apart = name.substr(second + 1);
  const std::int64_t held = std::atoll(columns.c_str()) / 2;
  const bool begins = apart.back() == 'z', is_wide = dtype == "tf32";
  const std::string a = "%" + std::to_string(held), b = "%" + std::to_string(held + 1);
  return std::string(kFunction) + "void lw_wgmma_" + name + "(float (&d)[" + std::to_string(held) + "], unsigned long long a, unsigned long long b) {\n" +
         "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n" + columns + (is_wide ? "k8" : "k16") + ".f32." + dtype + "." + dtype + " {" + operands(held) + "}, " + a + ", " + b + (begins ? ", 0, 1, 1" : ", 1, 1, 1") +
         (is_wide ? "" : std::string(", ") + apart[0] + ", " + apart[1]) + ";\"\n    : " + accumulators(held, begins ? "=f" : "+f") + " : \"l\"(a), \"l\"(b));\n}\n";
}

/// The place of a box as parameters of a function, and as operands of its assembly, from %2 on.
struct BoxPlace {
  std::string parameters, coordinates, inputs;
  explicit BoxPlace(std::int64_t rank) {
    for (std::int64_t i = 0; i < rank; ++i) {
      parameters += ", int c" + std::to_string(i);
      coordinates += (i ? ", %" : "%") + std::to_string(i + 2);
      inputs += ", \"r\"(c" + std::to_string(i) + ")";
    }
  }
};

/// A copy of a box with so many dimensions.
std::string copy_text(const std::string& dims) {
  const std::int64_t rank = std::atoll(dims.c_str());
  const BoxPlace place(rank);
  return std::string(kFunction) + "void lw_copy_" + dims + "(unsigned to, const lw_tensor_map* map" + place.parameters + ", unsigned barrier) {\n" +
         "  asm volatile(\"cp.async.bulk.tensor." + dims + "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" + place.coordinates + "}], [%" +
         std::to_string(rank + 2) + "];\"\n    : : \"r\"(to), \"l\"(map)" + place.inputs + ", \"r\"(barrier) : \"memory\");\n}\n";
}

/// A copy of a box from shared memory.
std::string copy_out_text(const std::string& dims) {
  const BoxPlace place(std::atoll(dims.c_str()));
  return std::string(kFunction) + "void lw_copy_out_" + dims + "(unsigned from, const lw_tensor_map* map" + place.parameters + ") {\n" +
         "  asm volatile(\"cp.async.bulk.tensor." + dims + "d.global.shared::cta.tile.bulk_group [%1, {" + place.coordinates + "}], [%0];\"\n    : : \"r\"(from), \"l\"(map)" +
         place.inputs + " : \"memory\");\n}\n";
}

}  // namespace

std::string tensor_core_prelude(std::string_view text) {
  if (text.find("lw_tensor_map") == std::string_view::npos &&
      text.find("lw_shared_address(") == std::string_view::npos)
    return {};
  std::string out(kCommon);
  for (const std::string& n : find_calls(text, "lw_products_wait_"))
    out += std::string(kFunction) + "void lw_products_wait_" + n + "() { asm volatile(\"wgmma.wait_group.sync.aligned " + n + ";\" : : : \"memory\"); }\n";
  // The hardware's barrier behind those that lw_row_barrier counts.
  for (const std::string& n : find_calls(text, "lw_start_"))
    out += std::string(kFunction) + "void lw_start_" + n + "() { asm volatile(\"bar.arrive 15, " + n + ";\" : : : \"memory\"); }\n";
  for (const std::string& n : find_calls(text, "lw_await_start_"))
    out += std::string(kFunction) + "void lw_await_start_" + n + "() { asm volatile(\"bar.sync 15, " + n + ";\" : : : \"memory\"); }\n";
  for (const char* way : {"up", "down"})
    for (const std::string& n : find_calls(text, std::string("lw_registers_") + way + "_"))
      out += std::string(kFunction) + "void lw_registers_" + way + "_" + n + "() { asm volatile(\"setmaxnreg." + (way[0] == 'u' ? "inc" : "dec") + ".sync.aligned.u32 " + n + ";\"); }\n";
  // Nothing that reads the sums may move in front of the wait for them.
  for (const std::string& n : find_calls(text, "lw_settled_"))
    out += std::string(kFunction) + "void lw_settled_" + n + "(float (&d)[" + n + "]) { asm volatile(\"\" : " + accumulators(std::atoll(n.c_str())) + "); }\n";
  for (const std::string& n : find_calls(text, "lw_wgmma_")) out += product_text(n);
  for (const std::string& n : find_calls(text, "lw_copy_"))
    if (std::isdigit(static_cast<unsigned char>(n[0])) != 0) out += copy_text(n);
  for (const std::string& n : find_calls(text, "lw_copy_out_")) out += copy_out_text(n);
  return out;
}

}  // namespace loopwright::codegen
