#include "src/support/digest.h"

#include <array>
#include <bit>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace loopwright {
namespace {

// FIPS 180-4, section 4.2.2.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void mix_block(State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (int i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State added = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

using MixBlock = void (*)(State&, const unsigned char*);

#if defined(__x86_64__)
/// By the processor's instructions for it, which take the state as (a, b, e, f) and (c, d, g, h) and four rounds' words at a time.
__attribute__((target("sha,sse4.1,ssse3"))) void mix_block_sha(State& state, const unsigned char* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto* words = reinterpret_cast<const __m128i*>(block);
  auto* out = reinterpret_cast<__m128i*>(state.data());
  const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(out), 0xb1), efgh = _mm_shuffle_epi32(_mm_loadu_si128(out + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(abcd, efgh, 8), cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);
  const __m128i abef_before = abef, cdgh_before = cdgh;
  __m128i w[4];
  for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(_mm_loadu_si128(words + i), big_endian);
  for (int i = 0; i < 16; ++i) {
    __m128i& now = w[i & 3];
    if (i >= 4) {
      const __m128i seven_back = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) & 3]), seven_back), w[(i + 3) & 3]);
    }
    const __m128i sum = _mm_add_epi32(now, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRound.data()) + i));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
  }
  const __m128i feba = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b), dchg = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
  _mm_storeu_si128(out, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(out + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSha = 1u << 29, kSsse3 = 1u << 9, kSse41 = 1u << 19;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & kSha) == 0) return false;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kSsse3) != 0 && (c & kSse41) != 0;
}
#endif

MixBlock choose_mix_block() {
#if defined(__x86_64__)
  if (has_sha_instructions()) return mix_block_sha;
#endif
  return mix_block;
}

std::string digest_hex(std::string_view bytes, MixBlock mix) {
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t whole = bytes.size() / 64 * 64;
  for (std::size_t at = 0; at < whole; at += 64) mix(state, data + at);

  std::string tail(bytes.substr(whole));
  tail += '\x80';
  while (tail.size() % 64 != 56) tail += '\0';
  const std::uint64_t bit_count = std::uint64_t{bytes.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bit_count >> shift & 0xff);
  for (std::size_t at = 0; at < tail.size(); at += 64)
    mix(state, reinterpret_cast<const unsigned char*>(tail.data()) + at);

  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) hex += kDigits[word >> shift & 0xf];
  return hex;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  static const MixBlock mix = choose_mix_block();
  return digest_hex(bytes, mix);
}

std::string sha256_hex_plain(std::string_view bytes) { return digest_hex(bytes, mix_block); }

}  // namespace loopwright
