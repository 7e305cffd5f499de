#include "src/cli/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

nlohmann::json to_json(const TunedWorkload& w) {
  nlohmann::json outcomes = nlohmann::json::object();
  for (const auto& [outcome, count] : w.outcomes) outcomes[std::string(name(outcome))] = count;
  return {{"workload", w.digest},
          {"family", w.family},
          {"default_ns", w.default_ns},
          {"best_ns", w.best_ns},
          {"trials", w.trials},
          {"outcomes", outcomes},
          {"ranges", w.ranges},
          {"worst_loss", w.worst_loss},
          {"mean_loss", w.mean_loss},
          {"gain_random", w.gain_random},
          {"gain_evolution", w.gain_evolution},
          {"complete", w.complete}};
}

nlohmann::json to_json(const TuneReport& r) {
  nlohmann::json workloads = nlohmann::json::array();
  for (const TunedWorkload& w : r.workloads) workloads.push_back(to_json(w));
  return {{"run", r.run},         {"cancelled", r.cancelled}, {"elapsed_s", r.elapsed_s},
          {"build_s", r.build_s}, {"measure_s", r.measure_s}, {"workloads", workloads}};
}

}  // namespace

Exit print_reports(const std::vector<TuneReport>& reports, const std::string& database, bool json) {
  bool is_cancelled = false, is_complete = true, has_all = true;
  std::string resumable;
  nlohmann::json all = nlohmann::json::array();
  Table table({"workload", "family", "default", "best", "ratio", "trials", "ok", "ranges", "loss mean",
               "worst", "random", "evolution"});
  double elapsed_s = 0, build_s = 0, measure_s = 0;
  std::int64_t trials = 0;
  for (const TuneReport& r : reports) {
    all.push_back(to_json(r));
    elapsed_s += r.elapsed_s;
    build_s += r.build_s;
    measure_s += r.measure_s;
    is_cancelled |= r.cancelled;
    if (r.cancelled) resumable = r.run;
    for (const TunedWorkload& w : r.workloads) {
      is_complete &= w.complete;
      has_all &= w.best_ns > 0;
      trials += w.trials;
      const auto ok = w.outcomes.find(Outcome::ok);
      table.add({shorten_digest(w.digest), w.family, format_time(w.default_ns), format_time(w.best_ns),
                 w.best_ns > 0 ? fmt::format("{:.2f}x", w.default_ns / w.best_ns) : "-",
                 std::to_string(w.trials), std::to_string(ok == w.outcomes.end() ? 0 : ok->second),
                 std::to_string(w.ranges), fmt::format("{:.1f}%", 100 * w.mean_loss),
                 fmt::format("{:.1f}%", 100 * w.worst_loss), fmt::format("{:.2f}x", w.gain_random),
                 fmt::format("{:.2f}x", w.gain_evolution)});
    }
  }
  if (json) {
    print_json(all);
  } else {
    fmt::print("{}", table.text());
    fmt::print("{} trials in {:.1f} s ({:.0f}% compiling, {:.0f}% measuring), kept in {}\n", trials,
               elapsed_s, elapsed_s > 0 ? 100 * build_s / elapsed_s : 0,
               elapsed_s > 0 ? 100 * measure_s / elapsed_s : 0, database);
    if (is_cancelled)
      fmt::print("stopped; go on with: loopwright resume {} --db {}\n", resumable.substr(0, 12), database);
  }
  if (!has_all && !is_cancelled) return kNoVariant;
  return is_cancelled || !is_complete ? kPartial : kOk;
}

}  // namespace loopwright::cli
