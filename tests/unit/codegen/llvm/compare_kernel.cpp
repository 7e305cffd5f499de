#include "tests/unit/codegen/llvm/compare_kernel.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "src/codegen/llvm/jit.h"
#include "src/ir/interpret.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "tests/support/run_image.h"

namespace loopwright::test {
namespace {

using ir::Array;

std::int64_t random_int(DType t, bool wild, std::mt19937_64& random) {
  if (t == DType::boolean) return static_cast<std::int64_t>(random() & 1);
  const int bits = size_bytes(t) * 8;
  const std::int64_t hi = t == DType::u8 ? 255 : static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
  const std::int64_t lo = t == DType::u8 ? 0 : -hi - 1;
  const std::int64_t extremes[] = {lo, hi, 0, 1, lo + 1, hi - 1, t == DType::u8 ? 2 : -1};
  if (wild && random() % 3 == 0) return extremes[random() % 7];
  if (!wild || random() % 2 == 0) return static_cast<std::int64_t>(random() % 9) - (t == DType::u8 ? 0 : 4);
  return static_cast<std::int64_t>(random()) >> (64 - bits) & (t == DType::u8 ? 255 : -1);
}

double random_float(DType t, bool wild, std::mt19937_64& random) {
  const double extremes[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 0.5, 2.5, 1e-40, -3e38, 65504, 65520, 1e5, 1e-7};
  if (wild && random() % 4 == 0) return extremes[random() % std::size(extremes)];
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 8 - 4;
  if (!wild || random() % 2 == 0) return unit;
  return std::ldexp(unit, static_cast<int>(random() % 40) - 20) * (t == DType::f16 ? 0.25 : 1);
}

Array make_array(const ir::BufferInfo& buffer, const ir::Kernel& kernel, const CompareOptions& o, std::mt19937_64& random) {
  std::vector<std::int64_t> values;
  for (const auto& s : kernel.symbols) values.push_back(o.symbols.at(s.symbol.name));
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  for (const auto& e : buffer.shape) shape.push_back(ir::to_size_expr(e, kernel.symbols)->evaluate(values.data()));
  for (const auto& e : buffer.strides) strides.push_back(ir::to_size_expr(e, kernel.symbols)->evaluate(values.data()));
  Array a = Array::dense(buffer.dtype, shape);
  if (!strides.empty()) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) last += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
    a.strides = strides;
    a.data.assign(static_cast<std::size_t>((last + 1) * size_bytes(buffer.dtype)), 0);
  }
  const auto width = static_cast<std::size_t>(size_bytes(buffer.dtype));
  for (std::size_t at = 0; at + width <= a.data.size(); at += width) {
    if (is_float(buffer.dtype)) {
      ir::store_element(buffer.dtype, a.data.data() + at, random_float(buffer.dtype, o.wild, random));
    } else {
      const std::int64_t v = random_int(buffer.dtype, o.wild, random);
      std::memcpy(a.data.data() + at, &v, width);
    }
  }
  return a;
}

/// Distance in units of the last place of `dtype` at `exact`.
double ulps_between(DType dtype, double value, double exact) {
  if (std::isnan(value) || std::isnan(exact)) return std::isnan(value) && std::isnan(exact) ? 0 : INFINITY;
  if (value == exact) return 0;
  if (std::isinf(value) || std::isinf(exact)) return INFINITY;
  struct Format {
    int digits, lowest;
  };
  const Format f = dtype == DType::f64 ? Format{52, -1022} : dtype == DType::f32 ? Format{23, -126} : dtype == DType::f16 ? Format{10, -14} : Format{7, -126};
  const int exponent = exact == 0 ? f.lowest : std::max(std::ilogb(exact), f.lowest);
  return std::abs(value - exact) / std::ldexp(1.0, exponent - f.digits);
}

std::string compare_arrays(const std::string& name, const Array& expected, const Array& actual, const CompareOptions& o) {
  const auto width = static_cast<std::size_t>(size_bytes(expected.dtype));
  for (std::size_t at = 0; at + width <= expected.data.size(); at += width) {
    const std::uint8_t* e = expected.data.data() + at;
    const std::uint8_t* a = actual.data.data() + at;
    if (std::memcmp(e, a, width) == 0) continue;
    const std::string place = name + " element " + std::to_string(at / width) + ": ";
    if (!is_float(expected.dtype)) {
      std::int64_t want = 0;
      std::int64_t got = 0;
      std::memcpy(&want, e, width);
      std::memcpy(&got, a, width);
      return place + "expected " + std::to_string(want) + ", got " + std::to_string(got);
    }
    const double want = ir::load_element(expected.dtype, e);
    const double got = ir::load_element(expected.dtype, a);
    if (std::abs(got - want) <= o.absolute) continue;
    const double ulps = ulps_between(expected.dtype, got, want);
    if (ulps > o.ulps) return place + "expected " + std::to_string(want) + ", got " + std::to_string(got) + ", " + std::to_string(ulps) + " ulp";
  }
  return "";
}

using Arguments = std::map<std::string, Array>;

Arguments make_arguments(const ir::Kernel& kernel, const CompareOptions& o) {
  std::mt19937_64 random(o.seed);
  Arguments out;
  for (const ir::Param& p : kernel.params) out[p.buffer->name] = make_array(*p.buffer, kernel, o, random);
  return out;
}

Status run_compiled(const ir::Kernel& kernel, const CompareOptions& o, Arguments& arguments) {
  LW_TRY(const codegen::CpuTarget target, o.target.empty() ? codegen::host_cpu_target() : codegen::parse_cpu_target(o.target));
  LW_TRY(const Artifact artifact, codegen::compile_cpu(kernel, target));
  std::vector<void*> buffers;
  for (const ir::Param& p : kernel.params) buffers.push_back(arguments[p.buffer->name].data.data());
  return run_artifact(artifact, o.symbols, buffers, o.chunk);
}

std::string compare_arguments(const Arguments& expected, const Arguments& actual, const CompareOptions& o) {
  for (const auto& [name, array] : expected) {
    if (std::string difference = compare_arrays(name, array, actual.at(name), o); !difference.empty()) return difference;
  }
  return "";
}

}  // namespace

std::string compare_kernel(const ir::Kernel& kernel, const CompareOptions& o) {
  if (auto status = ir::verify(kernel); !status.ok()) return status.error().message();
  Arguments expected = make_arguments(kernel, o);
  Arguments actual = expected;
  if (auto status = ir::interpret(kernel, o.symbols, expected); !status.ok()) return "interpreter: " + status.error().message();
  if (auto status = run_compiled(kernel, o, actual); !status.ok()) return status.error().message();
  return compare_arguments(expected, actual, o);
}

std::string compare_compiled(const ir::Kernel& a, const ir::Kernel& b, const CompareOptions& o) {
  Arguments expected = make_arguments(a, o);
  Arguments actual = expected;
  if (auto status = run_compiled(a, o, expected); !status.ok()) return status.error().message();
  if (auto status = run_compiled(b, o, actual); !status.ok()) return status.error().message();
  return compare_arguments(expected, actual, o);
}

std::string compare_text(const std::string& kernel_text, const CompareOptions& options) {
  auto kernel = ir::parse_kernel(kernel_text);
  if (!kernel.ok()) return kernel.error().message();
  return compare_kernel(*kernel, options);
}

}  // namespace loopwright::test
