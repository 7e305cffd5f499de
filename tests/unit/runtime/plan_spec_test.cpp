#include <gtest/gtest.h>

#include "src/runtime/plan.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright {
namespace {

using runtime::testing::symbol;
using runtime::testing::twice_spec;
using runtime::testing::vector_tensor;

PlanSpec rich_spec() {
  PlanSpec spec = twice_spec();
  spec.name = "a \"quoted\" näme";
  spec.symbols.push_back({"batch", 0, 4});
  spec.tensors[0].shape = {symbol(1), SizeExpr::apply(SizeExpr::Op::mul, symbol(0), 3)};
  spec.tensors[0].strides = {SizeExpr(-7), SizeExpr(2)};
  spec.tensors.push_back(vector_tensor("middle", ArgRole::workspace, symbol(0), DType::bf16));
  spec.kernels.push_back({"w", "general", {1, 2}, {1, 0}, {"s0", "s1"}, "strict w"});
  return spec;
}

TEST(PlanSpecText, ReadsBackTheSame) {
  const PlanSpec spec = rich_spec();
  const auto parsed = PlanSpec::parse(spec.text());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(*parsed, spec);
  EXPECT_EQ(parsed->text(), spec.text());
}

TEST(PlanSpecText, EveryTruncationIsAnErrorAndNotACrash) {
  const std::string text = rich_spec().text();
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(PlanSpec::parse(text.substr(0, length)).ok()) << length;
}

TEST(PlanSpecText, ANewerVersionIsUnsupported) {
  std::string text = twice_spec().text();
  const std::size_t at = text.find("\"version\":1");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 11, "\"version\":2");
  EXPECT_EQ(PlanSpec::parse(text).error().code, ErrorCode::unsupported);
}

template <class Change>
ErrorCode code_after(Change change) {
  PlanSpec spec = rich_spec();
  change(spec);
  const auto parsed = PlanSpec::parse(spec.text());
  EXPECT_EQ(runtime::check_spec(spec).ok(), parsed.ok());
  return parsed.ok() ? ErrorCode::ok : parsed.error().code;
}

TEST(PlanSpecText, ReferencesOutsideAreMalformed) {
  EXPECT_EQ(code_after([](PlanSpec&) {}), ErrorCode::ok);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.kernels[0].args[0] = 3; }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.kernels[0].args[0] = -1; }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.kernels[0].symbols[0] = 2; }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.kernels[0].symbol_names.push_back("s9"); }),
            ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.tensors[0].shape[0] = symbol(2); }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.tensors[0].shape[0] = SizeExpr(-1); }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.tensors[0].strides.pop_back(); }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.tensors[2].strides[0] = SizeExpr(-1); }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.symbols[0] = {"n", 5, 4}; }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { s.symbols[0] = {"n", -1, 4}; }), ErrorCode::malformed_ir);
  EXPECT_EQ(code_after([](PlanSpec& s) { std::swap(s.tensors[1], s.tensors[2]); }), ErrorCode::malformed_ir);
}

}  // namespace
}  // namespace loopwright
