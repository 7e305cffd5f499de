#include "tests/unit/lower/same_meaning.h"

#include <random>

#include "src/ir/interpret.h"
#include "src/ir/text.h"
#include "src/lower/passes.h"

namespace loopwright::test {
namespace {

using ir::Array;

std::int64_t evaluate(const ir::Expr& e, const ir::Kernel& k, const Bindings& symbols) {
  std::vector<std::int64_t> values;
  for (const auto& s : k.symbols) values.push_back(symbols.at(s.symbol.name));
  return ir::to_size_expr(e, k.symbols)->evaluate(values.data());
}

std::map<std::string, Array> make_arguments(const ir::Kernel& k, const Bindings& symbols, unsigned seed) {
  std::mt19937 random(seed);
  std::map<std::string, Array> out;
  for (const ir::Param& p : k.params) {
    std::vector<std::int64_t> shape;
    for (const auto& e : p.buffer->shape) shape.push_back(evaluate(e, k, symbols));
    Array a = Array::dense(p.buffer->dtype, shape);
    const auto width = static_cast<std::size_t>(size_bytes(a.dtype));
    for (std::size_t at = 0; at + width <= a.data.size(); at += width) {
      const double value = is_float(a.dtype) ? static_cast<double>(random() % 64) / 8 - 4 : static_cast<double>(random() % 8);
      if (is_float(a.dtype)) ir::store_element(a.dtype, a.data.data() + at, value);
      else a.data[at] = static_cast<std::uint8_t>(a.dtype == DType::boolean ? random() % 2 : random() % 8);
    }
    out[p.buffer->name] = std::move(a);
  }
  return out;
}

}  // namespace

std::string compare_meaning(const ir::Kernel& a, const ir::Kernel& b, const Bindings& symbols, unsigned seed) {
  auto left = make_arguments(a, symbols, seed);
  auto right = left;
  if (auto s = ir::interpret(a, symbols, left); !s.ok()) return "before: " + s.error().message();
  if (auto s = ir::interpret(b, symbols, right); !s.ok()) return "after: " + s.error().message();
  for (const auto& [name, array] : left) {
    if (array.data != right.at(name).data) return "`" + name + "` differs";
  }
  return "";
}

std::string check_every_pass(const std::string& text, const Bindings& symbols) {
  auto kernel = ir::parse_kernel(text);
  if (!kernel.ok()) return kernel.error().message();
  std::string problem;
  lower::LowerOptions options;
  options.verify_each = true;
  options.observe = [&](const lower::PassRecord& record, const ir::Kernel& after) {
    if (!problem.empty()) return;
    problem = compare_meaning(*kernel, after, symbols);
    if (!problem.empty()) problem = "pass " + record.name + ": " + problem + "\n" + ir::print(after);
  };
  auto lowered = lower::lower(*kernel, options);
  if (!lowered.ok()) return lowered.error().message();
  if (problem.empty() && lowered->level != ir::Level::emittable) problem = "not emittable";
  return problem;
}

}  // namespace loopwright::test
