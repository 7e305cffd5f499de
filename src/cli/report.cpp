#include "src/cli/report.h"

#include <fmt/format.h>

#include <cmath>
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
          {"complete", w.complete},
          {"compared", w.compared},
          {"why_not", w.why_not}};
}

nlohmann::json to_json(const TuneReport& r, const std::string& resume) {
  nlohmann::json workloads = nlohmann::json::array();
  for (const TunedWorkload& w : r.workloads) workloads.push_back(to_json(w));
  return {{"run", r.run},         {"graph", r.graph},         {"cancelled", r.cancelled}, {"elapsed_s", r.elapsed_s},
          {"build_s", r.build_s}, {"measure_s", r.measure_s}, {"workloads", workloads},   {"left", r.left},
          {"resume", r.cancelled ? nlohmann::json(resume) : nlohmann::json()}};
}

std::string resume_command(const std::string& run, const std::string& database) {
  return "loopwright resume " + (run.empty() ? "" : run.substr(0, 12) + " ") + "--db " + quote_for_shell(database);
}

/// What all reports together come to.
struct Sum {
  double elapsed_s = 0, build_s = 0, measure_s = 0;
  double log_random = 0, log_evolution = 0;
  std::int64_t trials = 0, workloads = 0;
  bool is_complete = true, has_all = true;

  void add(const TuneReport& r) {
    elapsed_s += r.elapsed_s;
    build_s += r.build_s;
    measure_s += r.measure_s;
    for (const TunedWorkload& w : r.workloads) {
      is_complete &= w.complete;
      has_all &= w.best_ns > 0;
      trials += w.trials;
      ++workloads;
      log_random += std::log(w.gain_random);
      log_evolution += std::log(w.gain_evolution);
    }
  }
};

void print_text(const std::vector<TuneReport>& reports, const Sum& sum, const std::string& database) {
  Table table({"workload", "family", "default", "best", "ratio", "ok/all", "ranges", "loss"});
  std::string troubles;
  bool has_doubt = false;
  for (const TuneReport& r : reports) {
    for (const TunedWorkload& w : r.workloads) {
      const auto ok = w.outcomes.find(Outcome::ok);
      has_doubt |= w.best_ns > 0 && !w.compared;
      table.add({digest_cell(w.digest), w.family, time_cell(w.default_ns), time_cell(w.best_ns),
                 w.best_ns > 0 ? fmt::format("{:.2f}x{}", w.default_ns / w.best_ns, w.compared ? "" : "?") : "-",
                 fmt::format("{}/{}", ok == w.outcomes.end() ? 0 : ok->second, w.trials), count_cell(w.ranges),
                 fmt::format("{:.1f}%", 100 * w.worst_loss)});
      if (w.best_ns <= 0 && !w.why_not.empty())
        troubles += fmt::format("{} {}: no valid candidate\n  {}\n", shorten_digest(w.digest), w.family, w.why_not);
    }
  }
  fmt::print("{}{}", table.text(), troubles);
  if (has_doubt) fmt::print("?: stopped before default and best were measured in turn\n");
  const auto share = [&](double part_s) { return sum.elapsed_s > 0 ? 100 * part_s / sum.elapsed_s : 0; };
  fmt::print("{} trial{} in {:.1f} s ({:.0f}% compiling, {:.0f}% measuring), kept in {}\n", sum.trials,
             sum.trials == 1 ? "" : "s", sum.elapsed_s, share(sum.build_s), share(sum.measure_s), database);
  if (sum.trials > 0) {
    const auto count = static_cast<double>(sum.workloads);
    fmt::print("speed-up over the default: random {:.2f}x, evolution {:.2f}x (geometric means)\n",
               std::exp(sum.log_random / count), std::exp(sum.log_evolution / count));
  }
}

}  // namespace

Exit print_reports(const std::vector<TuneReport>& reports, const std::string& database, bool json) {
  Sum sum;
  nlohmann::json all = nlohmann::json::array();
  for (const TuneReport& r : reports) {
    sum.add(r);
    all.push_back(to_json(r, resume_command(r.run, database)));
  }
  const bool is_cancelled = reports.empty() || reports.back().cancelled;
  if (json) {
    print_json(all);
  } else {
    if (!reports.empty()) print_text(reports, sum, database);
    if (is_cancelled) {
      std::string left;
      if (!reports.empty())
        for (const std::string& graph : reports.back().left) left += (left.empty() ? " (then " : ", ") + graph;
      fmt::print("stopped; go on with: {}{}\n", resume_command(reports.empty() ? "" : reports.back().run, database),
                 left.empty() ? "" : left + ")");
    }
  }
  if (!sum.has_all && !is_cancelled) return kNoVariant;
  return is_cancelled || !sum.is_complete ? kPartial : kOk;
}

}  // namespace loopwright::cli
