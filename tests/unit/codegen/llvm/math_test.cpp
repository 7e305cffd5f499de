#include "src/codegen/llvm/math.h"

#include <gtest/gtest.h>
#include <llvm/IR/LLVMContext.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "src/codegen/llvm/image.h"
#include "src/codegen/llvm/machine.h"
#include "tests/support/run_image.h"

namespace loopwright {
namespace {

using codegen::CpuTarget;
using Loop = void (*)(const void* const* callees, const float* x, const float* y, float* out, std::int64_t count);

/// Compiles `for (i = 0; i < count; i += lanes) out[i..] = f(x[i..], y[i..])`.
class CompiledFunction {
 public:
  CompiledFunction(const CpuTarget& target, unsigned lanes,
                   const std::function<llvm::Value*(codegen::MathEmitter&, llvm::Value*, llvm::Value*)>& f) {
    auto machine = codegen::Machine::create(target);
    llvm::LLVMContext context;
    llvm::Module module("math", context);
    machine->prepare(module);
    llvm::IRBuilder<> b(context);
    llvm::Type* pointer = b.getPtrTy();
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer, pointer, b.getInt64Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "f", module);
    machine->add_attributes(*function);
    auto* entry = llvm::BasicBlock::Create(context, "entry", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* done = llvm::BasicBlock::Create(context, "done", function);
    b.SetInsertPoint(entry);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(b.getInt64(0), entry);
    llvm::Type* value = b.getFloatTy();
    if (lanes > 1) value = llvm::FixedVectorType::get(value, lanes);
    const auto at = [&](unsigned arg) { return b.CreateGEP(b.getFloatTy(), function->getArg(arg), {i}); };
    llvm::Value* x = b.CreateAlignedLoad(value, at(1), llvm::Align(4));
    llvm::Value* y = b.CreateAlignedLoad(value, at(2), llvm::Align(4));
    codegen::MathEmitter math(b, target.fma, function->getArg(0));
    llvm::Value* result = f(math, x, y);
    b.CreateAlignedStore(result, at(3), llvm::Align(4));
    llvm::Value* next = b.CreateAdd(i, b.getInt64(lanes));
    i->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(4)), loop, done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
    if (auto status = machine->optimise(module); !status.ok()) throw std::runtime_error(status.error().message());
    auto object = machine->emit_object(module);
    auto image = codegen::make_image(object.value());
    if (!image.ok()) throw std::runtime_error(image.error().message());
    mapped_ = std::make_unique<test::MappedImage>(image->bytes);
    entry_ = mapped_->at<Loop>(image->functions.at("f"));
  }
  void run(const std::vector<float>& x, const std::vector<float>& y, std::vector<float>& out) const {
    entry_(test::cpu_callees(), x.data(), y.data(), out.data(), static_cast<std::int64_t>(x.size()));
  }

 private:
  std::unique_ptr<test::MappedImage> mapped_;
  Loop entry_ = nullptr;
};

float to_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Distance in units of the last place of the nearest float to `exact`; infinite when only one is NaN or infinite.
double ulp_error(float value, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(value) || std::isnan(nearest)) return std::isnan(value) == std::isnan(nearest) ? 0 : INFINITY;
  if (std::isinf(value) && std::isinf(nearest)) return value == nearest ? 0 : INFINITY;
  const auto finite = [](double x) { return std::isinf(x) ? std::copysign(0x1p128, x) : x; };
  const int exponent = std::max(std::ilogb(exact == 0 ? 0x1p-149 : exact), -126);
  return std::abs(finite(value) - std::min(std::max(exact, -0x1p128), 0x1p128)) / std::ldexp(1.0, std::min(exponent, 127) - 23);
}

struct Case {
  ir::UnaryOp op;
  double (*reference)(double);
};
double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }

const Case kCases[] = {{ir::UnaryOp::exp, std::exp},     {ir::UnaryOp::exp2, std::exp2},   {ir::UnaryOp::expm1, std::expm1},
                       {ir::UnaryOp::log, std::log},     {ir::UnaryOp::log2, std::log2},   {ir::UnaryOp::log1p, std::log1p},
                       {ir::UnaryOp::sin, std::sin},     {ir::UnaryOp::cos, std::cos},     {ir::UnaryOp::tan, std::tan},
                       {ir::UnaryOp::tanh, std::tanh},   {ir::UnaryOp::erf, std::erf},     {ir::UnaryOp::sigmoid, sigmoid},
                       {ir::UnaryOp::sqrt, std::sqrt},   {ir::UnaryOp::rsqrt, rsqrt},      {ir::UnaryOp::asin, std::asin},
                       {ir::UnaryOp::acos, std::acos},   {ir::UnaryOp::atan, std::atan},   {ir::UnaryOp::sinh, std::sinh},
                       {ir::UnaryOp::cosh, std::cosh},   {ir::UnaryOp::cbrt, std::cbrt}};

std::uint32_t sweep_stride() {
  const char* text = std::getenv("LOOPWRIGHT_SWEEP_STRIDE");
  return text != nullptr ? static_cast<std::uint32_t>(std::atoi(text)) : 8191;
}

double sweep(const CpuTarget& target, unsigned lanes, const Case& c, float& worst_at) {
  const CompiledFunction f(target, lanes, [&](auto& math, auto* x, auto*) { return math.emit(c.op, x); });
  constexpr std::size_t kBatch = 4096;
  std::vector<float> x;
  std::vector<float> out(kBatch);
  double worst = 0;
  const auto flush = [&] {
    x.resize(kBatch, 0.5F);
    f.run(x, x, out);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const double error = ulp_error(out[i], c.reference(x[i]));
      if (error > worst) worst = error, worst_at = x[i];
    }
    x.clear();
  };
  for (const float special : {0.F, -0.F, 1.F, -1.F, INFINITY, -INFINITY, NAN, 88.72283F, 88.7229F, -103.97F, 1e5F, 1e6F})
    x.push_back(special);
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += sweep_stride()) {
    x.push_back(to_float(static_cast<std::uint32_t>(bits)));
    if (x.size() == kBatch) flush();
  }
  // More of the range in which results are neither constants nor the argument.
  for (std::uint32_t bits = 0x3b000000; bits < 0x42d00000; bits += sweep_stride() / 16 + 1) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      x.push_back(to_float(bits | sign));
      if (x.size() == kBatch) flush();
    }
  }
  flush();
  return worst;
}

void check_target(const CpuTarget& target, unsigned lanes, double bound) {
  for (const Case& c : kCases) {
    float at = 0;
    const double worst = sweep(target, lanes, c, at);
    EXPECT_LE(worst, bound) << ir::name(c.op) << " at " << std::hexfloat << at << " for " << target.text;
    testing::Test::RecordProperty(std::string(ir::name(c.op)), std::to_string(worst));
    if (std::getenv("LOOPWRIGHT_SWEEP_STRIDE") != nullptr) {
      std::printf("%-8s lanes %2u  %.3f ulp at %a  %s\n", std::string(ir::name(c.op)).c_str(), lanes, worst,
                  static_cast<double>(at), target.fma ? "fma" : "no fma");
    }
  }
}

TEST(Math, EveryFunctionIsWithinTwoUlpInVectorsOfTheHost) { check_target(codegen::host_cpu_target().value(), 8, 2.0); }

TEST(Math, EveryFunctionIsWithinTwoUlpWithoutFma) {
  check_target(codegen::parse_cpu_target("cpu:x86-64-v2").value(), 4, 2.0);
}

TEST(Math, EveryFunctionIsWithinTwoUlpInScalars) { check_target(codegen::host_cpu_target().value(), 1, 2.0); }

TEST(Math, PowIsWithinTwoUlpAndKeepsItsSpecialCases) {
  const CompiledFunction f(codegen::host_cpu_target().value(), 8,
                           [](auto& math, auto* x, auto* y) { return math.emit(ir::BinaryOp::pow, x, y); });
  std::vector<float> x;
  std::vector<float> y;
  const float specials[] = {0.F,  -0.F, 1.F,  -1.F,  2.F,       -2.F,      3.F,  -3.F,     0.5F,     -0.5F,   1e30F, 1e-40F,
                            -1e30F, 7.F, 1e9F, 1e-30F, INFINITY, -INFINITY, NAN,  16777217.F, 16777215.F, 2.5F};
  for (const float a : specials) {
    for (const float b : specials) x.push_back(a), y.push_back(b);
  }
  std::uint32_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525U + 1013904223U;
    x.push_back(std::ldexp(1.0F + static_cast<float>(state >> 9) * 0x1p-23F, static_cast<int>(state >> 3) % 40 - 20));
    state = state * 1664525U + 1013904223U;
    y.push_back((static_cast<float>(state >> 8) * 0x1p-24F - 0.5F) * 20);
  }
  while (x.size() % 8 != 0) x.push_back(1), y.push_back(1);
  std::vector<float> out(x.size());
  f.run(x, y, out);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulp_error(out[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))), 2.0)
        << x[i] << " to the " << y[i] << " gave " << out[i];
  }
}

TEST(Image, AnUndefinedSymbolIsNamed) {
  auto machine = codegen::Machine::create(codegen::host_cpu_target().value());
  llvm::LLVMContext context;
  llvm::Module module("missing", context);
  machine->prepare(module);
  llvm::IRBuilder<> b(context);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "f", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  b.CreateCall(module.getOrInsertFunction("not_there", type));
  b.CreateRetVoid();
  auto object = machine->emit_object(module);
  const auto image = codegen::make_image(object.value());
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.error().code, ErrorCode::compile_failed);
  EXPECT_NE(image.error().found.find("not_there"), std::string::npos) << image.error().message();
}

}  // namespace
}  // namespace loopwright
