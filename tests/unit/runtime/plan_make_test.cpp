// What Plan::make refuses: artifacts that do not fit the plan they are offered for.
#include <gtest/gtest.h>

#include "src/runtime/plan.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright {
namespace {

using namespace runtime::testing;

template <class Change>
Error error_after(Change change) {
  auto artifact = twice_artifact();
  change(*artifact);
  auto plan = Plan::make(twice_spec(), {{variant_of(artifact)}});
  EXPECT_FALSE(plan.ok());
  if (plan.ok()) return {};
  EXPECT_FALSE(plan.error().asked.empty());
  EXPECT_FALSE(plan.error().found.empty());
  return plan.error();
}

TEST(PlanMake, TakesWhatFits) {
  EXPECT_TRUE(Plan::make(twice_spec(), {{variant_of(twice_artifact())}}).ok());
}

TEST(PlanMake, RefusesCodeThatReachesOutsideATensor) {
  const Error error =
      error_after([](Artifact& a) { a.args[1].shape[0] = SizeExpr::apply(SizeExpr::Op::add, symbol(0), 1); });
  EXPECT_EQ(error.code, ErrorCode::bad_artifact);
  EXPECT_NE(error.found.find("tensor y"), std::string::npos) << error.message();
  EXPECT_NE(error.where.find("elementwise"), std::string::npos) << error.message();
}

TEST(PlanMake, RefusesOtherTypesRolesAndCounts) {
  EXPECT_EQ(error_after([](Artifact& a) { a.args[0].dtype = DType::f64; }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.args[0].role = ArgRole::inout; }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.args.pop_back(); }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.args.push_back(a.args[0]); }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.args[0].strides.clear(); }).code, ErrorCode::bad_artifact);
}

TEST(PlanMake, RefusesUnknownSymbols) {
  EXPECT_EQ(error_after([](Artifact& a) { a.symbols = {"s1"}; }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { std::get<CpuLaunch>(a.launches[0]).extent = symbol(1); }).code,
            ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.guard = bounds(1, 2, 1, "elsewhere"); }).code,
            ErrorCode::bad_artifact);
}

TEST(PlanMake, RefusesImagesThatCannotRun) {
  EXPECT_EQ(error_after([](Artifact& a) { a.image.clear(); }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.launches.clear(); }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { std::get<CpuLaunch>(a.launches[0]).entry_offset = 1000; }).code,
            ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.launches = {CudaLaunch{}}; }).code, ErrorCode::bad_artifact);
  EXPECT_EQ(error_after([](Artifact& a) { a.target = "cpu:pentium"; }).code, ErrorCode::unsupported_target);
}

TEST(PlanMake, SaysWhichKernelHasNoVariant) {
  auto plan = Plan::make(twice_spec(), {{}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::no_variant);
  EXPECT_NE(plan.error().where.find("kernel 0"), std::string::npos);
  EXPECT_EQ(Plan::make(twice_spec(), {}).error().code, ErrorCode::malformed_ir);
  EXPECT_EQ(Plan::make(twice_spec(), {{Variant{}}}).error().code, ErrorCode::bad_artifact);
}

TEST(PlanMake, ACollapsedViewOfATensorIsFine) {
  PlanSpec spec = twice_spec();
  for (PlanTensor& tensor : spec.tensors) {
    tensor.shape = {symbol(0), SizeExpr(4)};
    tensor.strides = {SizeExpr(4), SizeExpr(1)};
  }
  const SizeExpr size = SizeExpr::apply(SizeExpr::Op::mul, symbol(0), 4);
  const auto flat = make_artifact(
      kTwice, {vector_arg("x", ArgRole::input, size), vector_arg("y", ArgRole::output, size)}, size);
  const auto plan = Plan::make(spec, {{variant_of(flat)}});
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8}, y(8);
  const std::int64_t shape[] = {2, 4};
  const TensorView views[] = {{x.data(), DType::f32, shape, {}}, {y.data(), DType::f32, shape, {}}};
  ASSERT_TRUE(plan->run(views).ok());
  EXPECT_EQ(y[7], 16);
}

}  // namespace
}  // namespace loopwright
