// PlanSpec as JSON text, and what must hold of one.
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "src/runtime/plan.h"

namespace loopwright {
namespace {

using Json = nlohmann::json;
constexpr int kPlanVersion = 1;

Error bad_spec(ErrorCode code, std::string found) {
  return {code, "read a plan", std::move(found), "",
          "a plan written by this version; tuning again stores a new one"};
}

/// Thrown inside this file only: sound JSON with unsound content.
struct Malformed {
  std::string found;
};

Json sizes_json(const std::vector<SizeExpr>& sizes) {
  Json out = Json::array();
  for (const SizeExpr& size : sizes) out.push_back(size.text());
  return out;
}

std::vector<SizeExpr> sizes_from(const Json& j) {
  std::vector<SizeExpr> out;
  for (const Json& item : j) {
    auto size = SizeExpr::parse(item.get<std::string>());
    if (!size.ok()) throw Malformed{size.error().message()};
    out.push_back(*size);
  }
  return out;
}

PlanTensor tensor_from(const Json& j) {
  PlanTensor tensor;
  tensor.name = j.at("name").get<std::string>();
  const auto dtype = parse_dtype(j.at("dtype").get<std::string>());
  const auto role = parse_arg_role(j.at("role").get<std::string>());
  if (!dtype || !role) throw Malformed{"tensor " + tensor.name + " with an unknown dtype or role"};
  tensor.dtype = *dtype;
  tensor.role = *role;
  tensor.shape = sizes_from(j.at("shape"));
  tensor.strides = sizes_from(j.at("strides"));
  return tensor;
}

PlanKernel kernel_from(const Json& j) {
  PlanKernel kernel;
  kernel.workload = j.at("workload").get<std::string>();
  kernel.strict_workload = j.value("strict_workload", "");
  kernel.family = j.at("family").get<std::string>();
  kernel.args = j.at("args").get<std::vector<std::int32_t>>();
  kernel.symbols = j.at("symbols").get<std::vector<std::int32_t>>();
  kernel.symbol_names = j.at("symbol_names").get<std::vector<std::string>>();
  return kernel;
}

PlanSpec spec_from(const Json& j) {
  PlanSpec spec;
  spec.name = j.at("name").get<std::string>();
  spec.graph_digest = j.at("graph").get<std::string>();
  for (const Json& s : j.at("symbols"))
    spec.symbols.push_back(
        {s.at("name").get<std::string>(), s.at("lo").get<std::int64_t>(), s.at("hi").get<std::int64_t>()});
  for (const Json& t : j.at("tensors")) spec.tensors.push_back(tensor_from(t));
  for (const Json& k : j.at("kernels")) spec.kernels.push_back(kernel_from(k));
  return spec;
}

/// What is wrong with one tensor; empty when nothing is.
std::string find_tensor_fault(const PlanTensor& tensor, std::size_t symbol_count) {
  if (tensor.shape.size() != tensor.strides.size())
    return std::to_string(tensor.strides.size()) + " strides for " + std::to_string(tensor.shape.size()) +
           " dimensions";
  for (const auto* sizes : {&tensor.shape, &tensor.strides})
    for (const SizeExpr& size : *sizes) {
      if (size.symbol_count() > static_cast<int>(symbol_count))
        return "size `" + size.text() + "` over an unknown symbol";
      if (size.depth() > runtime::kMaxSpecDepth) return "size `" + size.text() + "` is too deep";
    }
  const auto negative = [](const SizeExpr& s) { return s.is_constant() && s.evaluate(nullptr) < 0; };
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), negative)) return "a negative size";
  if (tensor.role == ArgRole::workspace &&
      std::any_of(tensor.strides.begin(), tensor.strides.end(), negative))
    return "a negative stride of an intermediate";
  return {};
}

std::string find_kernel_fault(const PlanKernel& kernel, const PlanSpec& spec) {
  if (kernel.symbols.size() != kernel.symbol_names.size())
    return std::to_string(kernel.symbol_names.size()) + " names for " +
           std::to_string(kernel.symbols.size()) + " symbols";
  if (kernel.symbols.size() > runtime::kMaxKernelSymbols)
    return std::to_string(kernel.symbols.size()) + " symbols, more than " +
           std::to_string(runtime::kMaxKernelSymbols);
  const auto outside = [](std::int32_t i, std::size_t size) {
    return i < 0 || static_cast<std::size_t>(i) >= size;
  };
  for (const std::int32_t symbol : kernel.symbols)
    if (outside(symbol, spec.symbols.size()))
      return "symbol " + std::to_string(symbol) + " of " + std::to_string(spec.symbols.size());
  for (const std::int32_t arg : kernel.args)
    if (outside(arg, spec.tensors.size()))
      return "tensor " + std::to_string(arg) + " of " + std::to_string(spec.tensors.size());
  return {};
}

}  // namespace

namespace runtime {

Status check_spec(const PlanSpec& spec) {
  const auto refuse = [&](const std::string& where, std::string found) {
    return Error{ErrorCode::malformed_ir, "use the plan " + spec.name, std::move(found), where,
                 "a plan made by the planner"};
  };
  for (const Symbol& symbol : spec.symbols)
    if (symbol.lo < 0 || symbol.hi < symbol.lo)
      return refuse("symbol " + symbol.name,
                    "the range " + std::to_string(symbol.lo) + ".." + std::to_string(symbol.hi));
  bool inside = false;
  for (const PlanTensor& tensor : spec.tensors) {
    const std::string fault = find_tensor_fault(tensor, spec.symbols.size());
    if (!fault.empty()) return refuse("tensor " + tensor.name, fault);
    const bool workspace = tensor.role == ArgRole::workspace;
    if (inside && !workspace) return refuse("tensor " + tensor.name, "it comes after an intermediate");
    inside = workspace;
  }
  for (std::size_t k = 0; k < spec.kernels.size(); ++k) {
    const std::string fault = find_kernel_fault(spec.kernels[k], spec);
    if (!fault.empty())
      return refuse("kernel " + std::to_string(k) + " (" + spec.kernels[k].family + ")", fault);
  }
  return Unit{};
}

}  // namespace runtime

std::string PlanSpec::text() const {
  Json out = {{"version", kPlanVersion}, {"name", name}, {"graph", graph_digest}};
  Json& symbol_list = out["symbols"] = Json::array();
  for (const Symbol& s : symbols) symbol_list.push_back({{"name", s.name}, {"lo", s.lo}, {"hi", s.hi}});
  Json& tensor_list = out["tensors"] = Json::array();
  for (const PlanTensor& t : tensors)
    tensor_list.push_back({{"name", t.name},
                           {"dtype", loopwright::name(t.dtype)},
                           {"role", loopwright::name(t.role)},
                           {"shape", sizes_json(t.shape)},
                           {"strides", sizes_json(t.strides)}});
  Json& kernel_list = out["kernels"] = Json::array();
  for (const PlanKernel& k : kernels) {
    kernel_list.push_back({{"workload", k.workload},
                           {"family", k.family},
                           {"args", k.args},
                           {"symbols", k.symbols},
                           {"symbol_names", k.symbol_names}});
    if (!k.strict_workload.empty()) kernel_list.back()["strict_workload"] = k.strict_workload;
  }
  return out.dump();
}

Result<PlanSpec> PlanSpec::parse(std::string_view text) {
  try {
    const Json j = Json::parse(text);
    const int version = j.at("version").get<int>();
    if (version != kPlanVersion)
      return bad_spec(ErrorCode::unsupported, "plan version " + std::to_string(version) +
                                                  ", this program reads " + std::to_string(kPlanVersion));
    PlanSpec spec = spec_from(j);
    LW_CHECK(runtime::check_spec(spec));
    return spec;
  } catch (const Json::exception& e) {
    return bad_spec(ErrorCode::syntax, e.what());
  } catch (const Malformed& e) {
    return bad_spec(ErrorCode::malformed_ir, e.found);
  }
}

}  // namespace loopwright
