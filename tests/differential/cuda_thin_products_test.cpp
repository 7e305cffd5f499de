// Thin products by warps on tensor cores: errors of the emitted text on a GPU that is emulated, as its tensor cores truncate;
// values that are no ordinary numbers; and that older GPUs' compilers take the text.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <regex>

#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/build.h"
#include "src/graph/group.h"
#include "src/ir/arithmetic.h"
#include "tests/differential/cuda_emulation.h"

namespace loopwright::test {
namespace {

constexpr std::int64_t kRows = 16, kColumns = 8;

struct ThinText {
  std::string what, trace;
  codegen::CudaText text;
};

ThinText make_thin(const std::string& graph_text, const std::string& arch, Picks picks) {
  ThinText out{graph_text + arch, {}, {}};
  const auto graph = Graph::parse(graph_text, "test.lw");
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const Target target = *Target::parse("cuda:" + arch);
  const auto job = driver::make_job(graph::make_workload(graph::group_ops(*graph)[0].graph));
  for (const Template* t : driver::templates_for(*job, target)) {
    if (std::string(t->name) != "gpu_matmul") continue;
    Space space(std::move(picks));
    const auto scheduled = driver::run_template(*job, *t, space, target);
    EXPECT_TRUE(scheduled.ok()) << out.what << "\n" << scheduled.error().message();
    if (!scheduled.ok()) return out;
    out.what += " " + print_picks(space.picks());
    out.trace = scheduled->trace;
    const auto lowered = driver::lower_kernel(scheduled->kernel, target);
    EXPECT_TRUE(lowered.ok()) << out.what;
    const auto text = codegen::emit_cuda(*lowered, target, "thin");
    EXPECT_TRUE(text.ok()) << out.what << "\n" << text.error().message();
    if (text.ok()) out.text = *text;
    EXPECT_NE(out.text.functions.find("lw_mma_"), std::string::npos) << out.what;
    return out;
  }
  ADD_FAILURE() << "no template for products takes " << out.what;
  return out;
}

std::string product_text(bool mixed, std::int64_t length) {
  const std::string k = std::to_string(length);
  return "graph g\ninput x: " + std::string(mixed ? "bf16" : "f32") + "[16, " + k + "]\ninput w: f32[8, " + k + "]\noutput y = linear(" + (mixed ? "cast(x, f32)" : "x") + ", w)\n";
}

/// A product's default, compiled for the host.
struct Compiled {
  bool mixed = false;
  ThinText thin;
  Result<EmulatedProgram> program;
  Compiled(bool is_mixed, std::size_t length)
      : mixed(is_mixed), thin(make_thin(product_text(is_mixed, static_cast<std::int64_t>(length)), "sm_90a", {{"thin", 1}})), program(EmulatedProgram::compile({&thin.text})) {
    EXPECT_TRUE(program.ok()) << program.error().message();
  }
};

/// y = x * transpose(w), row by row.
std::vector<float> run_product(const EmulatedProgram& program, const codegen::CudaText& text, const std::vector<float>& x, const std::vector<float>& w, bool narrow_x, bool narrow_w) {
  std::vector<float> y(kRows * kColumns, NAN);
  struct alignas(16) Vector { float v[4]; };
  const auto aligned = [](const std::vector<float>& values, bool narrow) {
    std::vector<Vector> out((values.size() + 3) / 4);
    std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
    for (std::size_t i = 0; narrow && i < values.size(); ++i) {
      const std::uint16_t bits = ir::to_bf16_bits(values[i]);
      std::memcpy(reinterpret_cast<char*>(out.data()) + 2 * i, &bits, 2);
    }
    return out;
  };
  std::vector<Vector> xs = aligned(x, narrow_x), ws = aligned(w, narrow_w), ys = aligned(y, false);
  std::vector<void*> buffers;
  for (const ArtifactArg& a : text.args)
    buffers.push_back(a.name == "i0" ? xs.data() : a.name == "i1" ? ws.data() : ys.data());
  const Status ran = program.run(text, buffers, {}, {});
  EXPECT_TRUE(ran.ok()) << ran.error().message();
  std::memcpy(y.data(), ys.data(), y.size() * sizeof(float));
  return y;
}

std::vector<float> multiply(const Compiled& product, const std::vector<float>& x, const std::vector<float>& w) {
  if (!product.program.ok()) return std::vector<float>(kRows * kColumns, NAN);
  return run_product(*product.program, product.thin.text, x, w, product.mixed, false);
}

struct Operands {
  std::vector<float> x, w;
};

/// `graded`: summands over four powers of ten.
Operands draw(const std::string& data, bool mixed, std::size_t length) {
  std::mt19937_64 random(length + data.size());
  std::normal_distribution<float> normal(0, 1);
  std::uniform_real_distribution<float> uniform(0, 1);
  Operands out;
  for (const auto& [rows, to] : {std::pair{kRows, &out.x}, std::pair{kColumns, &out.w}})
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < length; ++k) {
        const float scale = data == "graded" ? std::pow(10.0f, 4 * static_cast<float>(k) / static_cast<float>(length) - 2) : 1;
        const float v = data == "uniform" ? uniform(random) : normal(random) * scale;
        to->push_back(mixed && to == &out.x ? static_cast<float>(ir::round_to(DType::bf16, v)) : v);
      }
  return out;
}

TEST(CudaThinProducts, errors_are_no_larger_than_those_of_f32) {
  for (const bool mixed : {true, false})
    for (const std::size_t length : {520, 4096}) {
      const Compiled product(mixed, length);
      for (const char* data : {"normal", "uniform", "graded"}) {
        const Operands o = draw(data, mixed, length);
        const std::vector<float> y = multiply(product, o.x, o.w);
        double found = 0, plain = 0, size = 0;
        for (std::size_t i = 0; i < kRows; ++i)
          for (std::size_t j = 0; j < kColumns; ++j) {
            double exact = 0;
            float in_order = 0;
            for (std::size_t k = 0; k < length; ++k) {
              exact += static_cast<double>(o.x[i * length + k]) * static_cast<double>(o.w[j * length + k]);
              in_order = std::fma(o.x[i * length + k], o.w[j * length + k], in_order);
            }
            found += std::pow(y[i * kColumns + j] - exact, 2);
            plain += std::pow(in_order - exact, 2);
            size += exact * exact;
          }
        EXPECT_LE(found, plain) << (mixed ? "bf16 x f32 " : "f32 ") << data << " " << length;
        if (std::getenv("LOOPWRIGHT_PRINT_ERRORS") != nullptr)
          std::printf("%s %s %zu: f32 %.2e, parts %.2e\n", mixed ? "bf16 x f32" : "f32", data, length, std::sqrt(plain / size), std::sqrt(found / size));
      }
    }
}

TEST(CudaThinProducts, what_is_infinite_no_number_or_near_the_largest_comes_out_as_in_f32) {
  const float inf = INFINITY, large = 0x1.fffffep127f;
  for (const bool mixed : {true, false}) {
    const std::size_t length = 136;
    Operands o = draw("normal", mixed, length);
    const auto x = [&](std::size_t i, std::size_t k) -> float& { return o.x[i * length + k]; };
    const auto w = [&](std::size_t j, std::size_t k) -> float& { return o.w[j * length + k]; };
    x(0, 5) = inf, x(1, 7) = -inf, x(2, 0) = NAN, x(3, 1) = inf, x(3, 70) = -inf;
    w(1, 9) = inf, w(2, 135) = NAN;
    for (std::size_t k = 0; k < length; ++k) x(4, k) = k == 40 ? 0.5f : 0, w(3, k) = k == 40 ? -large : 0.25f;
    w(4, 5) = 0;  // times an infinity
    const std::vector<float> y = multiply(Compiled(mixed, length), o.x, o.w);
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kColumns; ++j) {
        float plain = 0;
        double size = 0;
        for (std::size_t k = 0; k < length; ++k) {
          plain = std::fma(x(i, k), w(j, k), plain);
          size += std::abs(static_cast<double>(x(i, k)) * static_cast<double>(w(j, k)));
        }
        const float found = y[i * kColumns + j];
        if (std::isfinite(plain)) EXPECT_NEAR(found, plain, 1e-6 * size) << mixed << " " << i << " " << j;
        else EXPECT_TRUE(std::isnan(plain) ? std::isnan(found) : found == plain) << mixed << " " << i << " " << j << ": " << found << " for " << plain;
      }
  }
}

/// The schedules take 32 summands a nest; instructions are made of 16 and of 64 as well.
TEST(CudaThinProducts, of_other_numbers_of_summands_mean_the_same) {
  const std::int64_t length = 200;
  const std::string graph_text = "graph g\ninput x: bf16[16, 200]\ninput w: bf16[8, 200]\noutput y = linear(cast(x, f32), cast(w, f32))\n";
  const Target target = *Target::parse("cuda:sm_90a");
  const auto job = driver::make_job(graph::make_workload(graph::group_ops(*Graph::parse(graph_text, "test.lw"))[0].graph));
  const ThinText thin = make_thin(graph_text, "sm_90a", {{"thin", 1}, {"loads", 2}});
  Operands o = draw("normal", true, length);
  for (float& v : o.w) v = static_cast<float>(ir::round_to(DType::bf16, v));
  for (const std::int64_t summands : {16, 64}) {
    std::string trace = std::regex_replace(thin.trace, std::regex("(_r0 by [0-9]+), 32 tail"), "$1, " + std::to_string(summands) + " tail");
    ASSERT_NE(trace, thin.trace);
    trace = std::regex_replace(trace, std::regex("by 4, 8 tail"), "by 4, " + std::to_string(summands / 4) + " tail");
    const auto scheduled = driver::replay(*job, trace);
    ASSERT_TRUE(scheduled.ok()) << scheduled.error().message();
    const auto lowered = driver::lower_kernel(scheduled->kernel, target);
    ASSERT_TRUE(lowered.ok()) << lowered.error().message();
    const auto text = codegen::emit_cuda(*lowered, target, "thin");
    ASSERT_TRUE(text.ok()) << text.error().message();
    const auto program = EmulatedProgram::compile({&*text});
    ASSERT_TRUE(program.ok()) << program.error().message();
    const std::vector<float> y = run_product(*program, *text, o.x, o.w, true, true);
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kColumns; ++j) {
        double exact = 0, size = 0;
        for (std::size_t k = 0; k < length; ++k) {
          const double product = static_cast<double>(o.x[i * length + k]) * static_cast<double>(o.w[j * length + k]);
          exact += product;
          size += std::abs(product);
        }
        EXPECT_NEAR(y[i * kColumns + j], exact, 1e-6 * size) << summands << " " << i << " " << j;
      }
  }
}

TEST(CudaThinProducts, compile_for_older_gpus) {
  const auto nvrtc = codegen::Nvrtc::shared();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message();
  for (const char* arch : {"sm_80", "sm_86", "sm_89"})
    for (const char* operands : {"input x: bf16[37, 2048]\ninput w: bf16[1024, 2048]\noutput y = linear(x, w)\n", "input x: f16[t, 1024]\ninput w: f16[64, 1024]\noutput y = linear(x, w)\n",
                                 "input x: bf16[t, 2048]\ninput w: f32[16, 2048]\noutput y = linear(cast(x, f32), w)\n"}) {
      const ThinText thin = make_thin("graph g\nsymbol t in 1..512\n" + std::string(operands), arch, {});
      const auto program = (*nvrtc)->compile({"thin.cu", codegen::cuda_program(thin.text.functions), arch, {}});
      ASSERT_TRUE(program.ok()) << thin.what << "\n" << program.error().message();
      for (const codegen::KernelFigures& figures : program->report.kernels) EXPECT_EQ(figures.spill_store_bytes, 0) << thin.what;
    }
}

TEST(CudaThinProducts, of_adapters_are_the_default) {
  for (const char* k : {"2048", "1024"})
    for (const char* most : {"8192", "512", "64"})
      make_thin("graph g\nsymbol t in 1.." + std::string(most) + "\ninput x: bf16[t, " + k + "]\ninput w: f32[16, " + k + "]\noutput y = linear(cast(x, f32), w)\n", "sm_90a", {});
}

}  // namespace
}  // namespace loopwright::test
