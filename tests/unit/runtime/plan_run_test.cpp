// The checked call: what is legal runs, what is not gets its own error.
#include <gtest/gtest.h>

#include <numeric>

#include "src/runtime/plan.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright {
namespace {

using namespace runtime::testing;

/// The error of a run, with its four parts checked; ErrorCode::ok when it ran.
Error run_error(const Plan& plan, const std::vector<TensorView>& views) {
  const Status status = plan.run(views);
  if (status.ok()) return {ErrorCode::ok, "", "", "", ""};
  EXPECT_FALSE(status.error().asked.empty());
  EXPECT_FALSE(status.error().found.empty()) << status.error().message();
  EXPECT_FALSE(status.error().works.empty()) << status.error().message();
  return status.error();
}

TEST(PlanRun, ComputesAtEachSize) {
  const Plan plan = twice_plan();
  for (const std::int64_t n : {1, 2, 3, 64, 1000}) {
    Held<float> x(std::vector<float>(static_cast<std::size_t>(n))),
        y(std::vector<float>(static_cast<std::size_t>(n), -1));
    std::iota(x.data.begin(), x.data.end(), 1.0F);
    ASSERT_EQ(run_error(plan, {x.view(DType::f32), y.view(DType::f32)}).code, ErrorCode::ok);
    for (std::size_t i = 0; i < y.data.size(); ++i) ASSERT_EQ(y.data[i], 2 * x.data[i]);
  }
}

TEST(PlanRun, NamesTheTensorThatIsWrong) {
  const Plan plan = twice_plan();
  Held<float> x({1, 2, 3}), y({0, 0, 0}), longer({0, 0, 0, 0});
  Held<double> other({0, 0, 0});
  EXPECT_EQ(run_error(plan, {x.view(DType::f32)}).code, ErrorCode::wrong_arguments);
  EXPECT_EQ(run_error(plan, {x.view(DType::f32), y.view(DType::f32), y.view(DType::f32)}).code,
            ErrorCode::wrong_arguments);
  Error error = run_error(plan, {x.view(DType::f32), other.view(DType::f64)});
  EXPECT_EQ(error.code, ErrorCode::wrong_arguments);
  EXPECT_NE(error.where.find("`y`"), std::string::npos) << error.message();
  EXPECT_NE(error.found.find("f64"), std::string::npos) << error.message();
  error = run_error(plan, {x.view(DType::f32), longer.view(DType::f32)});
  EXPECT_EQ(error.code, ErrorCode::wrong_arguments);
  EXPECT_NE(error.works.find("dimension 0 = 3"), std::string::npos) << error.message();
  TensorView bad = x.view(DType::f32);
  bad.dtype = static_cast<DType>(200);
  EXPECT_EQ(run_error(plan, {bad, y.view(DType::f32)}).code, ErrorCode::wrong_arguments);
  bad = x.view(DType::f32);
  bad.data = nullptr;
  EXPECT_EQ(run_error(plan, {bad, y.view(DType::f32)}).code, ErrorCode::wrong_arguments);
  const std::int64_t two[] = {1, 3}, negative[] = {-3};
  bad = x.view(DType::f32);
  bad.shape = two;
  EXPECT_EQ(run_error(plan, {bad, y.view(DType::f32)}).code, ErrorCode::wrong_arguments);
  bad.shape = negative;
  EXPECT_EQ(run_error(plan, {bad, y.view(DType::f32)}).code, ErrorCode::wrong_arguments);
  bad = x.view(DType::f32);
  bad.strides = two;
  EXPECT_EQ(run_error(plan, {bad, y.view(DType::f32)}).code, ErrorCode::wrong_arguments);
}

TEST(PlanRun, ASymbolOutsideItsRangeIsOutOfRange) {
  const Plan plan = twice_plan(2, 3);
  Held<float> x({1}), y({0}), x4({1, 2, 3, 4}), y4({0, 0, 0, 0});
  const Error error = run_error(plan, {x.view(DType::f32), y.view(DType::f32)});
  EXPECT_EQ(error.code, ErrorCode::out_of_range);
  EXPECT_NE(error.works.find("n in 2..3"), std::string::npos) << error.message();
  EXPECT_EQ(run_error(plan, {x4.view(DType::f32), y4.view(DType::f32)}).code, ErrorCode::out_of_range);
  void* pointers[] = {x.data.data(), y.data.data()};
  for (const std::int64_t n :
       {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, INT64_MAX})
    EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::out_of_range) << n;
}

TEST(PlanRun, AlignmentToTheElementIsRequired) {
  const Plan plan = twice_plan();
  alignas(64) char bytes[64] = {};
  Held<float> y({0, 0});
  const std::int64_t shape[] = {2};
  EXPECT_EQ(run_error(plan, {{bytes + 2, DType::f32, shape, {}}, y.view(DType::f32)}).code,
            ErrorCode::misaligned);
  EXPECT_EQ(run_error(plan, {{bytes + 4, DType::f32, shape, {}}, y.view(DType::f32)}).code, ErrorCode::ok);
}

TEST(PlanRun, ZeroSizesRunWithoutMemory) {
  const Plan plan = twice_plan(0, 10);
  const std::int64_t shape[] = {0}, strides[] = {77};
  EXPECT_EQ(run_error(plan, {{nullptr, DType::f32, shape, {}}, {nullptr, DType::f32, shape, strides}}).code,
            ErrorCode::ok);
}

TEST(PlanRun, OutputsMayNotOverlapAnything) {
  const Plan plan = twice_plan();
  std::vector<float> memory(8, 1);
  const std::int64_t shape[] = {4};
  const auto at = [&](std::size_t offset) {
    return TensorView{memory.data() + offset, DType::f32, shape, {}};
  };
  const Error error = run_error(plan, {at(0), at(3)});
  EXPECT_EQ(error.code, ErrorCode::aliasing);
  EXPECT_NE(error.found.find("shares 4 bytes with `x`"), std::string::npos) << error.message();
  EXPECT_EQ(run_error(plan, {at(2), at(0)}).code, ErrorCode::aliasing);
  EXPECT_EQ(run_error(plan, {at(0), at(0)}).code, ErrorCode::aliasing);
  EXPECT_EQ(run_error(plan, {at(0), at(4)}).code, ErrorCode::ok) << "neighbours share nothing";
}

PlanSpec sum_spec() {
  PlanSpec spec = twice_spec(0, 1000);
  spec.name = "sum";
  spec.tensors = {vector_tensor("a", ArgRole::input, symbol(0)),
                  vector_tensor("b", ArgRole::input, symbol(0)),
                  vector_tensor("c", ArgRole::output, symbol(0))};
  spec.kernels[0].args = {0, 1, 2};
  return spec;
}

std::shared_ptr<Artifact> sum_artifact() {
  return make_artifact(
      kSum,
      {vector_arg("a", ArgRole::input, symbol(0)), vector_arg("b", ArgRole::input, symbol(0)),
       vector_arg("c", ArgRole::output, symbol(0))},
      symbol(0));
}

TEST(PlanRun, InputsMayOverlapEachOther) {
  const Plan plan = Plan::make(sum_spec(), {{variant_of(sum_artifact())}}).value();
  std::vector<float> memory = {1, 2, 3, 4, 5};
  Held<float> c({0, 0, 0});
  const std::int64_t shape[] = {3};
  ASSERT_EQ(run_error(plan, {{memory.data(), DType::f32, shape, {}},
                             {memory.data() + 2, DType::f32, shape, {}},
                             c.view(DType::f32)})
                .code,
            ErrorCode::ok);
  EXPECT_EQ(c.data, (std::vector<float>{4, 6, 8}));
}

TEST(PlanRun, SizesThatDisagreeBetweenTensorsAreNamed) {
  const Plan plan = Plan::make(sum_spec(), {{variant_of(sum_artifact())}}).value();
  Held<float> a({1, 2, 3}), b({1, 2}), c({0, 0, 0});
  const Error error = run_error(plan, {a.view(DType::f32), b.view(DType::f32), c.view(DType::f32)});
  EXPECT_EQ(error.code, ErrorCode::wrong_arguments);
  EXPECT_NE(error.where.find("`b`"), std::string::npos);
  EXPECT_NE(error.works.find("n at n = 3"), std::string::npos) << error.message();
}

TEST(PlanRun, UpdatesAnInputInPlaceByItsAddress) {
  PlanSpec spec = twice_spec();
  spec.tensors = {vector_tensor("cache", ArgRole::inout, symbol(0))};
  spec.kernels[0].args = {0};
  const auto artifact =
      make_artifact(kTwiceInPlace, {vector_arg("cache", ArgRole::inout, symbol(0))}, symbol(0));
  const Plan plan = Plan::make(spec, {{variant_of(artifact)}}).value();
  Held<float> cache({1, 2, 3});
  const float* address = cache.data.data();
  for (int call = 0; call < 2; ++call)
    ASSERT_EQ(run_error(plan, {cache.view(DType::f32)}).code, ErrorCode::ok);
  EXPECT_EQ(cache.data.data(), address);
  EXPECT_EQ(cache.data, (std::vector<float>{4, 8, 12}));
}

TEST(PlanRun, StridesMustBeThoseOfTheGraph) {
  PlanSpec spec = twice_spec();
  spec.tensors[0].shape = {SizeExpr(2), symbol(0)};
  spec.tensors[0].strides = {SizeExpr(100), SizeExpr(2)};
  spec.tensors[1].shape = {SizeExpr(2), symbol(0)};
  spec.tensors[1].strides = {symbol(0), SizeExpr(1)};
  const auto nothing = make_artifact(kNothing, {}, symbol(0));
  nothing->args = {{"x", DType::f32, ArgRole::input, spec.tensors[0].shape, spec.tensors[0].strides},
                   {"y", DType::f32, ArgRole::output, spec.tensors[1].shape, spec.tensors[1].strides}};
  const Plan plan = Plan::make(spec, {{variant_of(nothing)}}).value();
  std::vector<float> memory(300);
  Held<float> y(std::vector<float>(20));
  const std::int64_t shape[] = {2, 10}, one[] = {2, 1}, right[] = {100, 2}, wrong[] = {100, 1},
                     any_last[] = {100, 55};
  const auto run = [&](std::span<const std::int64_t> s, std::span<const std::int64_t> strides) {
    return run_error(plan, {{memory.data(), DType::f32, s, strides}, {y.data.data(), DType::f32, s, {}}});
  };
  EXPECT_EQ(run(shape, right).code, ErrorCode::ok);
  EXPECT_EQ(run(shape, wrong).code, ErrorCode::wrong_arguments);
  EXPECT_NE(run(shape, wrong).works.find("stride 2 of dimension 1"), std::string::npos);
  EXPECT_EQ(run(shape, {}).code, ErrorCode::wrong_arguments) << "dense is not what the graph states";
  EXPECT_EQ(run(one, any_last).code, ErrorCode::ok) << "the stride of one element does not matter";
}

TEST(PlanRun, SizesTooLargeToCountAreRefused) {
  PlanSpec spec = twice_spec(1, INT64_MAX);
  for (PlanTensor& tensor : spec.tensors) {
    tensor.shape = {symbol(0), SizeExpr(std::int64_t{1} << 40)};
    tensor.strides = {SizeExpr(std::int64_t{1} << 40), SizeExpr(1)};
  }
  const auto nothing = make_artifact(kNothing, {}, symbol(0));
  nothing->args = {{"x", DType::f32, ArgRole::input, spec.tensors[0].shape, spec.tensors[0].strides},
                   {"y", DType::f32, ArgRole::output, spec.tensors[1].shape, spec.tensors[1].strides}};
  const Plan plan = Plan::make(spec, {{variant_of(nothing)}}).value();
  float value = 0;
  const std::int64_t shape[] = {std::int64_t{1} << 30, std::int64_t{1} << 40};
  EXPECT_EQ(run_error(plan, {{&value, DType::f32, shape, {}}, {&value, DType::f32, shape, {}}}).code,
            ErrorCode::size_overflow);
}

TEST(PlanRun, SolvesSymbolsFromExpressions) {
  PlanSpec spec = twice_spec(1, 1000000);
  spec.symbols.push_back({"m", 0, 50});
  const SizeExpr expr = SizeExpr::parse("s0 3 mul 2 add").value();
  const SizeExpr both = SizeExpr::parse("s0 s1 mul 5 add").value();
  spec.tensors = {vector_tensor("x", ArgRole::input, both), vector_tensor("z", ArgRole::input, expr),
                  vector_tensor("out", ArgRole::output, SizeExpr(2), DType::i64)};
  spec.kernels = {{"w", "symbols", {2}, {0, 1}, {"s0", "s1"}}};
  const auto artifact = make_artifact(
      kWriteSymbols, {vector_arg("out", ArgRole::output, SizeExpr(2), DType::i64)}, 2, {"s1", "s0"});
  const Plan plan = Plan::make(spec, {{variant_of(artifact)}}).value();
  Held<float> x(std::vector<float>(7 * 11 + 5)), z(std::vector<float>(7 * 3 + 2));
  Held<std::int64_t> out({0, 0});
  ASSERT_EQ(run_error(plan, {x.view(DType::f32), z.view(DType::f32), out.view(DType::i64)}).code,
            ErrorCode::ok);
  EXPECT_EQ(out.data, (std::vector<std::int64_t>{11, 7})) << "in the artifact's own order";
  z.shape[0] = 24;  // no n gives 24
  EXPECT_EQ(run_error(plan, {x.view(DType::f32), z.view(DType::f32), out.view(DType::i64)}).code,
            ErrorCode::out_of_range);
}

TEST(PlanRun, ASymbolThatNoShapeTellsNeedsLaunch) {
  PlanSpec spec = twice_spec();
  spec.tensors = {vector_tensor("out", ArgRole::output, SizeExpr(1), DType::i64)};
  spec.kernels[0].args = {0};
  const auto artifact =
      make_artifact(kWriteSymbols, {vector_arg("out", ArgRole::output, SizeExpr(1), DType::i64)}, 1);
  const Plan plan = Plan::make(spec, {{variant_of(artifact)}}).value();
  Held<std::int64_t> out({0});
  EXPECT_EQ(run_error(plan, {out.view(DType::i64)}).code, ErrorCode::bad_symbol);
  void* pointers[] = {out.data.data()};
  const std::int64_t n = 42;
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  EXPECT_EQ(out.data[0], 42);
}

TEST(PlanRun, NoVariantSaysAtWhichSizes) {
  const Plan plan = Plan::make(twice_spec(), {{variant_of(twice_artifact(), bounds(10, 20))}}).value();
  Held<float> x({1}), y({0});
  const Error error = run_error(plan, {x.view(DType::f32), y.view(DType::f32)});
  EXPECT_EQ(error.code, ErrorCode::no_variant);
  EXPECT_NE(error.where.find("n = 1"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace loopwright
