#include "tuner/run_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace loopwright::tuner {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;

json write_probes(const std::vector<Bindings>& list) {
  json probes = json::array();
  for (const Bindings& p : list) {
    json one = json::object();
    for (const auto& [symbol, value] : p) one[symbol] = value;
    probes.push_back(one);
  }
  return probes;
}

std::vector<Bindings> read_probes(const json& list) {
  std::vector<Bindings> probes;
  for (const json& p : list) {
    Bindings probe;
    for (const auto& [symbol, value] : p.items()) probe[symbol] = value.get<std::int64_t>();
    probes.push_back(std::move(probe));
  }
  return probes;
}

json write_shapes(const std::vector<ShapeCount>& list) {
  json shapes = json::array();
  for (const ShapeCount& s : list) shapes.push_back({{"values", write_probes({s.values}).front()}, {"count", s.count}});
  return shapes;
}

/// Older runs had none.
std::vector<ShapeCount> read_shapes(const json& holder) {
  std::vector<ShapeCount> shapes;
  for (const json& s : holder.value("shapes", json::array()))
    shapes.push_back({read_probes(json::array({s.at("values")})).front(), s.at("count")});
  return shapes;
}

}  // namespace

RunState RunState::follow(double used_s) const {
  RunState after;
  after.options = options;
  after.graph_name = next.front().name;
  after.graph_text = next.front().text;
  after.options.probes = next.front().probes;
  after.options.shapes = next.front().shapes;
  after.next.assign(next.begin() + 1, next.end());
  after.whole_budget_s = std::max(1.0, whole_budget_s - used_s);
  after.take_share();
  return after;
}

std::string RunState::text() const {
  json later = json::array();
  for (const NextGraph& n : next) later.push_back({{"name", n.name}, {"graph", n.text}, {"probes", write_probes(n.probes)}, {"shapes", write_shapes(n.shapes)}});
  return json{{"version", kVersion},
              {"graph_name", graph_name},
              {"graph", graph_text},
              {"elapsed_s", elapsed_s},
              {"ended_searches", ended_searches},
              {"target", options.target.text()},
              {"budget_s", options.budget_s},
              {"max_trials", options.max_trials},
              {"seed", options.seed},
              {"search", options.search},
              {"cost_model", options.cost_model},
              {"build_threads", options.build_threads},
              {"probes", write_probes(options.probes)},
              {"shapes", write_shapes(options.shapes)},
              {"max_variants", options.max_variants},
              {"next", later},
              {"whole_budget_s", whole_budget_s},
              {"device", options.device},
              {"worker", options.worker_path},
              {"command", options.command_line}}
      .dump();
}

Result<RunState> RunState::parse(const std::string& text) {
  const json j = json::parse(text, nullptr, false);
  const auto fail = [&](ErrorCode code, const std::string& found) {
    return Error{.code = code, .asked = "go on with a run", .found = found, .works = "start a new run on the same database: it uses what this one measured"};
  };
  if (!j.is_object()) return fail(ErrorCode::syntax, "its state is no JSON object");
  if (j.value("version", 0) != kVersion) {
    return fail(ErrorCode::unsupported, "its state has version " + std::to_string(j.value("version", 0)));
  }
  try {
    RunState s;
    s.graph_name = j.at("graph_name");
    s.graph_text = j.at("graph");
    s.elapsed_s = j.at("elapsed_s");
    s.ended_searches = j.at("ended_searches").get<std::map<std::string, std::int64_t>>();
    LW_TRY(s.options.target, Target::parse(j.at("target").get<std::string>()));
    s.options.budget_s = j.at("budget_s");
    s.options.max_trials = j.at("max_trials");
    s.options.seed = j.at("seed");
    s.options.search = j.at("search");
    s.options.cost_model = j.at("cost_model");
    s.options.build_threads = j.at("build_threads");
    s.options.probes = read_probes(j.at("probes"));
    s.options.shapes = read_shapes(j);
    s.options.max_variants = j.value("max_variants", s.options.max_variants);
    // Older runs were one graph each.
    for (const json& n : j.value("next", json::array())) s.next.push_back({n.at("name"), n.at("graph"), read_probes(n.at("probes")), read_shapes(n)});
    s.whole_budget_s = j.value("whole_budget_s", s.options.budget_s);
    s.options.device = j.at("device");
    s.options.worker_path = j.at("worker");
    s.options.command_line = j.at("command");
    return s;
  } catch (const json::exception& e) {
    return fail(ErrorCode::syntax, e.what());
  }
}

}  // namespace loopwright::tuner
