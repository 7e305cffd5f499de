// Every operation of the IR in every dtype, compiled in scalars, in vectors, and under masks, against the interpreter.
#include "src/codegen/llvm/ops.h"

#include <gtest/gtest.h>

#include "src/ir/arithmetic.h"
#include "tests/unit/codegen/llvm/compare_kernel.h"

namespace loopwright {
namespace {

using ir::Expr;

constexpr std::int64_t kCount = 96;
constexpr DType kDTypes[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16, DType::i32,
                             DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};

enum class Form { scalar, vector, masked };

/// One kernel with an output for each expression of a[i], b[i] and c[i].
class KernelMaker {
 public:
  explicit KernelMaker(DType dtype) {
    for (const char* name : {"a", "b"}) inputs_.push_back(add(name, dtype, ArgRole::input));
    inputs_.push_back(add("c", DType::boolean, ArgRole::input));
  }
  Expr at(int input) const { return ir::load(inputs_[static_cast<std::size_t>(input)], {ir::var(i_)}); }
  void output(Expr value) {
    const ir::Buffer out = add("out" + std::to_string(values_.size()), value->dtype, ArgRole::output);
    values_.push_back(ir::store(out, {ir::var(i_)}, std::move(value)));
  }
  std::size_t count() const { return values_.size(); }
  ir::Kernel make(Form form) const {
    ir::Kernel k = kernel_;
    k.name = "ops";
    k.level = ir::Level::emittable;
    k.contract = false;
    const ir::Var outer = ir::fresh_var("o");
    const ir::Var lane = ir::fresh_var("l");
    const std::int64_t lanes = form == Form::scalar ? 1 : form == Form::vector ? 8 : 10;
    const Expr index = ir::var(outer) * ir::int_imm(lanes) + ir::var(lane);
    ir::Stmt body = ir::let(i_, index, ir::seq(values_));
    if (form == Form::masked) body = ir::if_then(ir::lt(index, ir::int_imm(kCount)), body);
    body = ir::loop(lane, ir::int_imm(lanes), body, form == Form::scalar ? ir::LoopKind::serial : ir::LoopKind::vectorize);
    k.body = ir::loop(outer, ir::int_imm((kCount + lanes - 1) / lanes), body);
    return k;
  }

 private:
  ir::Buffer add(const std::string& name, DType dtype, ArgRole role) {
    auto buffer = std::make_shared<const ir::BufferInfo>(ir::BufferInfo{name, dtype, ir::Memory::global, {ir::int_imm(kCount)}, {}});
    kernel_.params.push_back({buffer, role});
    return buffer;
  }
  ir::Kernel kernel_;
  ir::Var i_ = ir::fresh_var("i");
  std::vector<ir::Buffer> inputs_;
  std::vector<ir::Stmt> values_;
};

/// f16 and bf16 results differ where an f32 result beside a rounding boundary does.
double allowed_ulps(DType t, bool transcendental) {
  if (!transcendental) return 0;
  return t == DType::f32 ? 2.5 : t == DType::f64 ? 3 : 1;
}

void check(const KernelMaker& maker, double ulps, const std::string& what) {
  // Without FMA and F16C too; empty is the host.
  const std::pair<const char*, Form> cases[] = {{"", Form::scalar}, {"", Form::vector}, {"", Form::masked}, {"cpu:x86-64-v2", Form::vector}};
  for (const auto& [target, form] : cases) {
    test::CompareOptions options;
    options.ulps = ulps;
    options.target = target;
    options.seed = 7;
    EXPECT_EQ(test::compare_kernel(maker.make(form), options), "") << what << " form " << static_cast<int>(form) << " " << target;
  }
}

class OpsOf : public testing::TestWithParam<DType> {};

bool is_transcendental(ir::UnaryOp op) {
  return (op >= ir::UnaryOp::exp && op <= ir::UnaryOp::sigmoid) && op != ir::UnaryOp::sqrt && op != ir::UnaryOp::reciprocal;
}

TEST_P(OpsOf, UnaryOperationsAgree) {
  for (const bool transcendental : {false, true}) {
    KernelMaker maker(GetParam());
    std::string names;
    for (int op = 0; op <= static_cast<int>(ir::UnaryOp::round_tf32); ++op) {
      const auto unary = static_cast<ir::UnaryOp>(op);
      if (is_transcendental(unary) != transcendental || !ir::result_dtype(unary, GetParam())) continue;
      names += std::to_string(maker.count()) + "=" + std::string(ir::name(unary)) + " ";
      maker.output(ir::unary(unary, maker.at(0)));
    }
    if (maker.count() > 0) check(maker, allowed_ulps(GetParam(), transcendental), names);
  }
}

TEST_P(OpsOf, BinaryOperationsAgree) {
  for (const bool transcendental : {false, true}) {
    KernelMaker maker(GetParam());
    std::string names;
    for (int op = 0; op <= static_cast<int>(ir::BinaryOp::ge); ++op) {
      const auto binary = static_cast<ir::BinaryOp>(op);
      const bool hard = is_float(GetParam()) && (binary == ir::BinaryOp::pow || binary == ir::BinaryOp::atan2);
      if (hard != transcendental || !ir::result_dtype(binary, GetParam(), GetParam())) continue;
      names += std::to_string(maker.count()) + "=" + std::string(ir::name(binary)) + " ";
      maker.output(ir::binary(binary, maker.at(0), maker.at(1)));
    }
    if (maker.count() > 0) check(maker, allowed_ulps(GetParam(), transcendental), names);
  }
}

TEST_P(OpsOf, CastsAndSelectsAgree) {
  KernelMaker maker(GetParam());
  for (const DType to : kDTypes) maker.output(ir::cast(maker.at(0), to));
  maker.output(ir::select(maker.at(2), maker.at(0), maker.at(1)));
  maker.output(ir::select(ir::binary(ir::BinaryOp::lt, maker.at(0), maker.at(1)), maker.at(0), ir::constant(1, GetParam())));
  check(maker, 0, "casts in the order of DType, then selects");
}

TEST_P(OpsOf, DivisionByConstantsAgrees) {
  if (is_float(GetParam()) || GetParam() == DType::boolean) return;
  KernelMaker maker(GetParam());
  for (const std::int64_t divisor : {1, 7, 8, -1, -2, -7, 0}) {
    if (GetParam() == DType::u8 && divisor < 0) continue;
    const Expr d = ir::int_imm(divisor, GetParam());
    for (const auto op : {ir::BinaryOp::div, ir::BinaryOp::floor_div, ir::BinaryOp::mod, ir::BinaryOp::fmod, ir::BinaryOp::shl, ir::BinaryOp::shr}) {
      maker.output(ir::binary(op, maker.at(0), d));
    }
  }
  check(maker, 0, "divisions by constants");
}

INSTANTIATE_TEST_SUITE_P(Ops, OpsOf, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace loopwright
