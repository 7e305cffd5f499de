// Random naive kernels through the printer, the parser, the verifier, the simplifier and the interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "tests/support/random_kernel.h"

namespace loopwright::testing {
namespace {

constexpr std::uint64_t kSeeds = 300;

/// Bit for bit, any NaN being equal to any other.
void expect_same(const std::map<std::string, ir::Array>& a, const std::map<std::string, ir::Array>& b,
                 const std::string& what) {
  for (const auto& [name, x] : a) {
    const ir::Array& y = b.at(name);
    ASSERT_EQ(x.data.size(), y.data.size()) << what;
    const auto width = static_cast<std::size_t>(size_bytes(x.dtype));
    for (std::size_t at = 0; at + width <= x.data.size(); at += width) {
      const double u = ir::load_element(x.dtype, x.data.data() + at),
                   v = ir::load_element(y.dtype, y.data.data() + at);
      const bool same = std::equal(x.data.begin() + static_cast<std::ptrdiff_t>(at),
                                   x.data.begin() + static_cast<std::ptrdiff_t>(at + width),
                                   y.data.begin() + static_cast<std::ptrdiff_t>(at));
      ASSERT_TRUE(same || (std::isnan(u) && std::isnan(v)))
          << what << ": " << name << " at byte " << at << ": " << u << " and " << v;
    }
  }
}

TEST(RandomKernels, are_well_formed_and_print_what_they_parse) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ir::Kernel k = random_kernel(seed);
    const Status good = ir::verify(k);
    ASSERT_TRUE(good.ok()) << "seed " << seed << "\n" << good.error().message();
    const std::string text = ir::print(k);
    ASSERT_EQ(text, ir::print(random_kernel(seed))) << "seed " << seed;
    const auto again = ir::parse_kernel(text);
    ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << again.error().message() << "\n" << text;
    ASSERT_EQ(ir::print(*again), text) << "seed " << seed;
    ASSERT_TRUE(ir::verify(*again).ok());
  }
}

TEST(RandomKernels, keep_their_results_when_parsed_copied_and_simplified) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ir::Kernel k = random_kernel(seed);
    ir::Kernel copied = k;
    copied.body = ir::clone_bindings(k.body);
    const auto parsed = ir::parse_kernel(ir::print(k));
    const ir::Kernel simplified = ir::simplify(k);
    const Status good = ir::verify(simplified);
    ASSERT_TRUE(good.ok()) << "seed " << seed << "\n" << good.error().message();
    ASSERT_EQ(ir::print(ir::simplify(simplified)), ir::print(simplified)) << "seed " << seed;
    for (std::uint64_t sample = 0; sample < 3; ++sample) {
      const Bindings bindings = random_bindings(k, seed * 31 + sample);
      const auto inputs = random_arguments(k, bindings, seed * 17 + sample);
      auto expected = inputs;
      const Status ran = ir::interpret(k, bindings, expected);
      ASSERT_TRUE(ran.ok()) << "seed " << seed << "\n" << ran.error().message();
      for (const ir::Kernel* variant :
           std::initializer_list<const ir::Kernel*>{&copied, &*parsed, &simplified}) {
        auto found = inputs;
        const Status again = ir::interpret(*variant, bindings, found);
        ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << again.error().message();
        expect_same(expected, found,
                    "seed " + std::to_string(seed) + "\n" + ir::print(k) + "\n" + ir::print(*variant));
      }
    }
  }
}

}  // namespace
}  // namespace loopwright::testing
