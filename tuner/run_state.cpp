#include "tuner/run_state.h"

#include <nlohmann/json.hpp>

namespace loopwright::tuner {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;

}  // namespace

std::string RunState::text() const {
  json probes = json::array();
  for (const Bindings& p : options.probes) {
    json one = json::object();
    for (const auto& [symbol, value] : p) one[symbol] = value;
    probes.push_back(one);
  }
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
              {"probes", probes},
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
    for (const json& p : j.at("probes")) {
      Bindings probe;
      for (const auto& [symbol, value] : p.items()) probe[symbol] = value.get<std::int64_t>();
      s.options.probes.push_back(std::move(probe));
    }
    s.options.device = j.at("device");
    s.options.worker_path = j.at("worker");
    s.options.command_line = j.at("command");
    return s;
  } catch (const json::exception& e) {
    return fail(ErrorCode::syntax, e.what());
  }
}

}  // namespace loopwright::tuner
