#include "src/codegen/cuda/prelude.h"

#include <set>
#include <vector>

#include "src/codegen/cuda/cache_text.h"
#include "src/codegen/cuda/tensor_text.h"

namespace loopwright::codegen {
namespace {

struct Definition {
  std::string_view name;
  std::string_view text;
};

/// A definition may name those above it.
constexpr Definition kDefinitions[] = {
    // ---- bf16 and f16: stored bits, arithmetic in float. Conversions of pairs, also for one: those of a single value are
    // a quarter as fast, and share their unit with exp and reciprocals.
    {"lw_bf16_float", "float lw_bf16_float(unsigned short a) { return __uint_as_float((unsigned)a << 16); }"},
    {"lw_bf16_low", "float lw_bf16_low(unsigned a) { return __uint_as_float(a << 16); }"},
    {"lw_bf16_high", "float lw_bf16_high(unsigned a) { return __uint_as_float(a & 0xffff0000u); }"},
    {"lw_float_bf16",
     "unsigned short lw_float_bf16(float a) { unsigned r; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(0.0f), \"f\"(a)); return (unsigned short)r; }"},
    {"lw_pack_bf16",
     "unsigned lw_pack_bf16(float low, float high) { unsigned r; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low)); return r; }"},
    {"lw_bf16_parts",
     "void lw_bf16_parts(float a, float b, unsigned& high, unsigned& middle, unsigned& low) {\n"
     "  high = lw_pack_bf16(a, b); a -= lw_bf16_low(high); b -= lw_bf16_high(high);\n"
     "  middle = lw_pack_bf16(a, b); low = lw_pack_bf16(a - lw_bf16_low(middle), b - lw_bf16_high(middle)); }"},
    {"lw_f16_float",
     "float lw_f16_float(unsigned short a) { float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(a)); return r; }"},
    {"lw_f16_low", "float lw_f16_low(unsigned a) { return lw_f16_float((unsigned short)a); }"},
    {"lw_f16_high", "float lw_f16_high(unsigned a) { return lw_f16_float((unsigned short)(a >> 16)); }"},
    {"lw_float_f16",
     "unsigned short lw_float_f16(float a) { unsigned r; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(0.0f), \"f\"(a)); return (unsigned short)r; }"},
    {"lw_pack_f16",
     "unsigned lw_pack_f16(float low, float high) { unsigned r; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low)); return r; }"},
    // Rounding to odd keeps what a second rounding needs: the last bit is set when something was cut off.
    {"lw_double_odd",
     "float lw_double_odd(double a) { float r = __double2float_rz(a); unsigned b = __float_as_uint(r);\n"
     "  return a == a && (double)r != a ? __uint_as_float(b | 1u) : r; }"},
    {"lw_pick16", "unsigned short lw_pick16(unsigned word, int half) { return (unsigned short)(word >> (half * 16)); }"},
    {"lw_pick8", "unsigned char lw_pick8(unsigned word, int quarter) { return (unsigned char)(word >> (quarter * 8)); }"},
    {"lw_place16",
     "unsigned lw_place16(unsigned word, int half, unsigned short a) { return (word & ~(0xffffu << (half * 16))) | ((unsigned)a << (half * 16)); }"},
    {"lw_place8",
     "unsigned lw_place8(unsigned word, int quarter, unsigned char a) { return (word & ~(0xffu << (quarter * 8))) | ((unsigned)a << (quarter * 8)); }"},
    {"lw_pack16", "unsigned lw_pack16(unsigned short low, unsigned short high) { return (unsigned)low | ((unsigned)high << 16); }"},
    {"lw_pack8",
     "unsigned lw_pack8(unsigned char a, unsigned char b, unsigned char c, unsigned char d) {\n"
     "  return (unsigned)a | ((unsigned)b << 8) | ((unsigned)c << 16) | ((unsigned)d << 24); }"},
    // ---- min and max: NaN when either side is, -0 below +0
    {"lw_max_f32", "float lw_max_f32(float a, float b) { float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }"},
    {"lw_min_f32", "float lw_min_f32(float a, float b) { float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; }"},
    {"lw_max2_bf16", "unsigned lw_max2_bf16(unsigned a, unsigned b) { unsigned r; asm(\"max.NaN.bf16x2 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r; }"},
    {"lw_max2_f16", "unsigned lw_max2_f16(unsigned a, unsigned b) { unsigned r; asm(\"max.NaN.f16x2 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r; }"},
    {"lw_min2_bf16", "unsigned lw_min2_bf16(unsigned a, unsigned b) { unsigned r; asm(\"min.NaN.bf16x2 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r; }"},
    {"lw_min2_f16", "unsigned lw_min2_f16(unsigned a, unsigned b) { unsigned r; asm(\"min.NaN.f16x2 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r; }"},
    {"lw_max_f64", "double lw_max_f64(double a, double b) { return a != a ? a : b != b ? b : fmax(a, b); }"},
    {"lw_min_f64", "double lw_min_f64(double a, double b) { return a != a ? a : b != b ? b : fmin(a, b); }"},
    // ---- floats
    // a / b from r = 1 / b, rounded as division rounds but where the rest a - q b underflows (then 1 ulp). An infinite or
    // zero operand, or a quotient out of range, makes the corrected one NaN, and the product is right.
    {"lw_divide",
     "float lw_divide(float a, float b, float r) { float q = a * r, e = __fmaf_rn(-q, b, a), c = __fmaf_rn(e, r, q); return c == c ? c : q; }"},
    {"lw_sign_f32", "float lw_sign_f32(float a) { return a == 0.0f || a != a ? a : copysignf(1.0f, a); }"},
    {"lw_sign_f64", "double lw_sign_f64(double a) { return a == 0.0 || a != a ? a : copysign(1.0, a); }"},
    {"lw_round_tf32",
     "float lw_round_tf32(float a) { unsigned b = __float_as_uint(a);\n"
     "  return (b & 0x7f800000u) == 0x7f800000u ? a : __uint_as_float((b + 0xfffu + (b >> 13 & 1u)) & 0xffffe000u); }"},
    // Of 1 and more: no denormal operand, 1 ulp.
    {"lw_reciprocal", "float lw_reciprocal(float a) { float r; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(a)); return r; }"},
    {"lw_sigmoid_f32", "float lw_sigmoid_f32(float a) { return lw_reciprocal(1.0f + expf(-a)); }"},
    // Within 2^-17: the product with log2(e) is rounded once. What is below 2^-126 is 0. Beyond 2^128 the sum of a sigmoid
    // is infinite and its result 0.
    {"lw_power_rough", "float lw_power_rough(float a) { float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(a)); return r; }"},
    {"lw_exp_rough", "float lw_exp_rough(float a) { return lw_power_rough(a * 1.4426950408889634f); }"},
    {"lw_sigmoid_rough", "float lw_sigmoid_rough(float a) { return lw_reciprocal(1.0f + lw_power_rough(a * -1.4426950408889634f)); }"},
    {"lw_sigmoid_f64", "double lw_sigmoid_f64(double a) { return 1.0 / (1.0 + exp(-a)); }"},
    {"lw_mod_f32", "float lw_mod_f32(float a, float b) { float r = fmodf(a, b); return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r; }"},
    {"lw_mod_f64", "double lw_mod_f64(double a, double b) { double r = fmod(a, b); return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r; }"},
    // ---- float to integer: truncates, saturates, NaN is 0
    {"lw_f32_i64",
     "long long lw_f32_i64(float a) { return a != a ? 0 : a >= 9223372036854775808.0f ? 0x7fffffffffffffffll : a < -9223372036854775808.0f ? -0x7fffffffffffffffll - 1 : (long long)a; }"},
    {"lw_f64_i64",
     "long long lw_f64_i64(double a) { return a != a ? 0 : a >= 9223372036854775808.0 ? 0x7fffffffffffffffll : a < -9223372036854775808.0 ? -0x7fffffffffffffffll - 1 : (long long)a; }"},
    {"lw_f64_range",
     "int lw_f64_range(double a, double low, double high) { return a != a ? 0 : (int)fmin(fmax(a, low), high); }"},
    // ---- integers: division by zero gives 0, nothing traps
    {"lw_div", "long long lw_div(long long a, long long b) { return b == 0 ? 0 : b == -1 ? (long long)(0ull - (unsigned long long)a) : a / b; }"},
    {"lw_rem", "long long lw_rem(long long a, long long b) { return b == 0 || b == -1 ? 0 : a % b; }"},
    {"lw_floor_div",
     "long long lw_floor_div(long long a, long long b) { long long q = lw_div(a, b);\n"
     "  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q; }"},
    {"lw_mod", "long long lw_mod(long long a, long long b) { long long r = lw_rem(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }"},
    {"lw_pow",
     "long long lw_pow(long long a, long long n) {\n"
     "  if (n < 0) return a == 1 ? 1 : a == -1 ? (n % 2 == 0 ? 1 : -1) : 0;\n"
     "  unsigned long long r = 1, x = (unsigned long long)a;\n"
     "  for (; n > 0; n >>= 1) { if (n & 1) r *= x; x *= x; }\n"
     "  return (long long)r; }"},
    {"lw_shl", "long long lw_shl(long long a, long long n, int bits) { return n < 0 || n >= bits ? 0 : (long long)((unsigned long long)a << n); }"},
    {"lw_shr", "long long lw_shr(long long a, long long n, int bits) { return n < 0 || n >= bits ? (a < 0 ? -1 : 0) : a >> n; }"},
    // ---- tensor cores: 16 rows, 8 columns and 16 summands, of a warp
    {"lw_mma_bf16",
     "void lw_mma_bf16(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {\n"
     "  asm(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
     "    : \"+f\"(d0), \"+f\"(d1), \"+f\"(d2), \"+f\"(d3) : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), \"r\"(b1)); }"},
    {"lw_mma_f16",
     "void lw_mma_f16(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {\n"
     "  asm(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"
     "    : \"+f\"(d0), \"+f\"(d1), \"+f\"(d2), \"+f\"(d3) : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), \"r\"(b1)); }"},
    // ---- threads
    {"lw_row_barrier",
     "void lw_row_barrier(int row, int threads) { asm volatile(\"bar.sync %0, %1;\" : : \"r\"(row + 1), \"r\"(threads) : \"memory\"); }"},
    // Blocks of a cluster: who waits sees what was written before the others arrived.
    {"lw_cluster_begin", "void lw_cluster_begin() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" : : : \"memory\"); }"},
    {"lw_cluster_arrive", "void lw_cluster_arrive() { asm volatile(\"barrier.cluster.arrive.release.aligned;\" : : : \"memory\"); }"},
    {"lw_cluster_wait", "void lw_cluster_wait() { asm volatile(\"barrier.cluster.wait.acquire.aligned;\" : : : \"memory\"); }"},
    // A row of 16 bytes and more by the copy engine, which adds them to what the barrier has.
    {"lw_copy_row",
     "void lw_copy_row(unsigned to, const void* from, unsigned bytes, unsigned barrier) {\n"
     "  asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\"\n"
     "    : : \"r\"(to), \"l\"(__cvta_generic_to_global(from)), \"r\"(bytes), \"r\"(barrier) : \"memory\"); }"},
    // Copies by threads that go on; so many of the bytes come from memory, the rest is zero.
    {"lw_copy_async_4",
     "void lw_copy_async_4(unsigned to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4, %2;\" : : \"r\"(to), \"l\"(__cvta_generic_to_global(from)), \"r\"(bytes) : \"memory\"); }"},
    {"lw_copy_async_8",
     "void lw_copy_async_8(unsigned to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.ca.shared.global [%0], [%1], 8, %2;\" : : \"r\"(to), \"l\"(__cvta_generic_to_global(from)), \"r\"(bytes) : \"memory\"); }"},
    {"lw_copy_async_16",
     "void lw_copy_async_16(unsigned to, const void* from, int bytes) {\n"
     "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" : : \"r\"(to), \"l\"(__cvta_generic_to_global(from)), \"r\"(bytes) : \"memory\"); }"},
    {"lw_copies_commit", "void lw_copies_commit() { asm volatile(\"cp.async.commit_group;\" : : : \"memory\"); }"},
    {"lw_copies_wait_0", "void lw_copies_wait_0() { asm volatile(\"cp.async.wait_group 0;\" : : : \"memory\"); }"},
    {"lw_copies_wait_1", "void lw_copies_wait_1() { asm volatile(\"cp.async.wait_group 1;\" : : : \"memory\"); }"},
    {"lw_copies_wait_2", "void lw_copies_wait_2() { asm volatile(\"cp.async.wait_group 2;\" : : : \"memory\"); }"},
    // Edges between launches: the next grid may come to the SMs, and the one before is over and can be seen.
    {"lw_let_next_begin", "void lw_let_next_begin() { asm volatile(\"griddepcontrol.launch_dependents;\" : : : \"memory\"); }"},
    {"lw_await_previous", "void lw_await_previous() { asm volatile(\"griddepcontrol.wait;\" : : : \"memory\"); }"},
    // What launches before wrote, and first-level caches may hold otherwise: only a wait empties them by itself.
    {"lw_see_earlier", "void lw_see_earlier() { asm volatile(\"fence.acq_rel.gpu;\" : : : \"memory\"); }"},
    // An address that the compiler learns only here: no load of memory that the kernel does not write moves to the front.
    {"lw_behind",
     "void* lw_behind(const void* p) { unsigned long long a = __cvta_generic_to_global(p);\n"
     "  asm volatile(\"\" : \"+l\"(a) : : \"memory\"); return __cvta_global_to_generic(a); }"},
    {"lw_peer",
     "void* lw_peer(void* mine, unsigned block) { void* r; asm(\"mapa.u64 %0, %1, %2;\" : \"=l\"(r) : \"l\"(mine), \"r\"(block)); return r; }"},
    // A word is a value of four bytes below a flag. Who takes it leaves zero for the next launch.
    {"lw_publish",
     "void lw_publish(unsigned long long* word, unsigned value) {\n"
     "  asm volatile(\"st.relaxed.gpu.global.u64 [%0], %1;\" : : \"l\"(word), \"l\"(1ull << 32 | value) : \"memory\"); }"},
    {"lw_peek",
     "unsigned long long lw_peek(const unsigned long long* word) { unsigned long long r;\n"
     "  asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : \"=l\"(r) : \"l\"(word) : \"memory\"); return r; }"},
    {"lw_take",
     "unsigned lw_take(unsigned long long* word, unsigned long long seen) { while (seen >> 32 == 0) seen = lw_peek(word); *word = 0; return (unsigned)seen; }"},
    {"lw_arrive",
     "unsigned lw_arrive(unsigned* count) { unsigned r; __threadfence();\n"
     "  asm volatile(\"atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;\" : \"=r\"(r) : \"l\"(count) : \"memory\"); return r; }"},
};

bool names(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const char after = at + name.size() < text.size() ? text[at + name.size()] : ' ';
    if (after == '(') return true;
  }
  return false;
}

}  // namespace

std::string cuda_prelude(std::string_view text) {
  std::vector<std::string_view> taken;
  std::string all(text);
  for (std::size_t i = std::size(kDefinitions); i-- > 0;) {
    const Definition& d = kDefinitions[i];
    if (!names(all, d.name)) continue;
    taken.push_back(d.text);
    all += d.text;
  }
  std::string out = tensor_core_prelude(text) + cache_prelude(text);
  for (std::size_t i = taken.size(); i-- > 0;) out += "static __device__ __forceinline__ " + std::string(taken[i]) + "\n";
  return out;
}

}  // namespace loopwright::codegen
