#include "loopwright/artifact.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace loopwright {
namespace {

using Json = nlohmann::json;

Error bad_artifact(std::string found) {
  return Error{ErrorCode::bad_artifact, "cannot read an artifact header", std::move(found), "",
               "an artifact written by this version, or a rebuild from its trace"};
}

/// Thrown inside this file only: a header whose JSON is sound and whose content is not.
struct Malformed {
  std::string found;
};

Json sizes_json(const auto& sizes) {
  Json out = Json::array();
  for (const SizeExpr& size : sizes) out.push_back(size.text());
  return out;
}

SizeExpr size_from(const Json& j, std::size_t symbol_count) {
  auto size = SizeExpr::parse(j.get<std::string>());
  if (!size.ok()) throw Malformed{size.error().message()};
  if (size->symbol_count() > static_cast<int>(symbol_count))
    throw Malformed{"size `" + size->text() + "` names a symbol beyond the " + std::to_string(symbol_count) +
                    " there are"};
  return *size;
}

std::vector<SizeExpr> sizes_from(const Json& j, std::size_t symbol_count) {
  std::vector<SizeExpr> out;
  for (const Json& item : j) out.push_back(size_from(item, symbol_count));
  return out;
}

Json arg_json(const ArtifactArg& a) {
  return {{"name", a.name},
          {"dtype", name(a.dtype)},
          {"role", name(a.role)},
          {"shape", sizes_json(a.shape)},
          {"strides", sizes_json(a.strides)},
          {"zeroed", a.zeroed}};
}

ArtifactArg arg_from(const Json& j, std::size_t symbol_count) {
  ArtifactArg a;
  a.name = j.at("name").get<std::string>();
  const auto dtype = parse_dtype(j.at("dtype").get<std::string>());
  const auto role = parse_arg_role(j.at("role").get<std::string>());
  if (!dtype || !role) throw Malformed{"argument `" + a.name + "` has an unknown dtype or role"};
  a.dtype = *dtype;
  a.role = *role;
  a.shape = sizes_from(j.at("shape"), symbol_count);
  a.strides = sizes_from(j.at("strides"), symbol_count);
  a.zeroed = j.value("zeroed", false);
  if (a.shape.size() != a.strides.size())
    throw Malformed{"argument `" + a.name + "` has unequal numbers of dimensions and strides"};
  return a;
}

Json map_json(const TensorMap& m) {
  return {{"arg", m.arg}, {"shape", sizes_json(m.shape)}, {"strides_bytes", sizes_json(m.strides_bytes)}, {"box", m.box}, {"rounds_tf32", m.rounds_tf32}};
}

TensorMap map_from(const Json& j, std::size_t symbol_count) {
  TensorMap m{j.at("arg").get<std::int32_t>(), sizes_from(j.at("shape"), symbol_count),
              sizes_from(j.at("strides_bytes"), symbol_count), j.at("box").get<std::vector<std::int32_t>>(), j.value("rounds_tf32", false)};
  const std::size_t rank = m.shape.size();
  if (rank < 1 || rank > 5 || m.strides_bytes.size() + 1 != rank || m.box.size() != rank)
    throw Malformed{"a tensor map of " + std::to_string(rank) + " dimensions, " + std::to_string(m.strides_bytes.size()) +
                    " strides and a box of " + std::to_string(m.box.size())};
  return m;
}

Json launch_json(const Launch& launch) {
  if (const auto* cpu = std::get_if<CpuLaunch>(&launch))
    return {{"kind", "cpu"},
            {"entry_offset", cpu->entry_offset},
            {"extent", cpu->extent.text()},
            {"scratch_bytes", cpu->scratch_bytes.text()}};
  const auto& cuda = std::get<CudaLaunch>(launch);
  Json maps = Json::array();
  for (const TensorMap& m : cuda.tensor_maps) maps.push_back(map_json(m));
  return {{"kind", "cuda"},
          {"tensor_maps", maps},
          {"entry", cuda.entry},
          {"grid", sizes_json(cuda.grid)},
          {"block", cuda.block},
          {"cluster", cuda.cluster},
          {"shared_bytes", cuda.shared_bytes.text()},
          {"programmatic_dependent", cuda.programmatic_dependent},
          {"takes_overlap", cuda.takes_overlap}};
}

Launch launch_from(const Json& j, std::size_t symbol_count) {
  const std::string kind = j.at("kind").get<std::string>();
  if (kind == "cpu") {
    CpuLaunch out;
    out.entry_offset = j.at("entry_offset").get<std::uint64_t>();
    out.extent = size_from(j.at("extent"), symbol_count);
    out.scratch_bytes = size_from(j.at("scratch_bytes"), symbol_count);
    return out;
  }
  if (kind != "cuda") throw Malformed{"launch of the unknown kind `" + kind + "`"};
  CudaLaunch out;
  out.entry = j.at("entry").get<std::string>();
  const auto grid = sizes_from(j.at("grid"), symbol_count);
  if (grid.size() != 3) throw Malformed{"a grid of " + std::to_string(grid.size()) + " dimensions"};
  std::copy(grid.begin(), grid.end(), out.grid.begin());
  out.block = j.at("block").get<std::array<std::int32_t, 3>>();
  out.cluster = j.at("cluster").get<std::array<std::int32_t, 3>>();
  out.shared_bytes = size_from(j.at("shared_bytes"), symbol_count);
  out.programmatic_dependent = j.at("programmatic_dependent").get<bool>();
  out.takes_overlap = j.value("takes_overlap", false);
  for (const Json& m : j.value("tensor_maps", Json::array())) out.tensor_maps.push_back(map_from(m, symbol_count));
  return out;
}

Artifact artifact_from(const Json& j, std::vector<std::uint8_t> image) {
  Artifact out;
  out.target = j.at("target").get<std::string>();
  out.symbols = j.at("symbols").get<std::vector<std::string>>();
  for (const Json& arg : j.at("args")) out.args.push_back(arg_from(arg, out.symbols.size()));
  auto guard = Guard::parse(j.at("guard").get<std::string>());
  if (!guard.ok()) throw Malformed{guard.error().message()};
  out.guard = std::move(*guard);
  for (const Json& launch : j.at("launches")) out.launches.push_back(launch_from(launch, out.symbols.size()));
  for (const Launch& launch : out.launches) {
    if (const auto* cuda = std::get_if<CudaLaunch>(&launch))
      for (const TensorMap& m : cuda->tensor_maps)
        if (m.arg < 0 || static_cast<std::size_t>(m.arg) >= out.args.size())
          throw Malformed{"a tensor map of argument " + std::to_string(m.arg) + " of " + std::to_string(out.args.size())};
    const auto* cpu = std::get_if<CpuLaunch>(&launch);
    if (cpu && cpu->entry_offset >= image.size())
      throw Malformed{"entry offset " + std::to_string(cpu->entry_offset) + " is outside the image of " +
                      std::to_string(image.size()) + " bytes"};
  }
  out.image = std::move(image);
  return out;
}

}  // namespace

std::string_view name(ArgRole role) {
  switch (role) {
    case ArgRole::input: return "input";
    case ArgRole::output: return "output";
    case ArgRole::inout: return "inout";
    case ArgRole::workspace: return "workspace";
  }
  throw_bug(__FILE__, __LINE__, "role", std::to_string(static_cast<int>(role)));
}

std::optional<ArgRole> parse_arg_role(std::string_view text) {
  for (const ArgRole role : {ArgRole::input, ArgRole::output, ArgRole::inout, ArgRole::workspace})
    if (name(role) == text) return role;
  return std::nullopt;
}

std::string Artifact::header_text() const {
  Json arg_list = Json::array(), launch_list = Json::array();
  for (const ArtifactArg& arg : args) arg_list.push_back(arg_json(arg));
  for (const Launch& launch : launches) launch_list.push_back(launch_json(launch));
  const Json header = {{"version", kArtifactVersion}, {"target", target},
                       {"symbols", symbols},          {"args", arg_list},
                       {"guard", guard.text()},       {"launches", launch_list}};
  // Text that is not UTF-8 is replaced: a header must be writable whatever a name holds.
  return header.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<Artifact> Artifact::from_parts(std::string_view header_text, std::vector<std::uint8_t> image) {
  const Json header = Json::parse(header_text, nullptr, false);
  if (header.is_discarded() || !header.is_object()) return bad_artifact("it is not a JSON object");
  try {
    const auto version = header.at("version").get<std::int64_t>();
    if (version != kArtifactVersion)
      return bad_artifact("it has version " + std::to_string(version) + ", this library reads version " +
                          std::to_string(kArtifactVersion));
    return artifact_from(header, std::move(image));
  } catch (const Malformed& m) {
    return bad_artifact(m.found);
  } catch (const Json::exception& e) {
    return bad_artifact(e.what());
  }
}

}  // namespace loopwright
