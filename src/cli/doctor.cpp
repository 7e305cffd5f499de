// db doctor: what is wrong with a database, and whether its times still hold.
#include "db/doctor.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "loopwright/tune.h"
#include "src/cli/command.h"
#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

struct DoctorArguments {
  int canary = 0;  ///< winners to measure again
  TuneOptions options;
};

/// What the times of some winners are now, as findings of the doctor.
Status add_drift(const DoctorArguments& a, db::CheckReport& report, bool& cancelled, const Context& context) {
  TuneOptions options = a.options;
  LW_TRY(options.target, find_target(options.device));
  options.command_line = context.command_line;
  LW_TRY(const CanaryReport drift, check_drift(options, a.canary, {.cancel = &watch_interrupts()}));
  for (const CanaryReading& r : drift.readings) {
    std::string shape;
    for (const auto& [symbol, value] : r.shape) shape += fmt::format(" {}={}", symbol, value);
    const std::string what = fmt::format("{} {} for {}{}: ", shorten_digest(r.workload), r.label, r.range, shape.empty() ? "" : " at" + shape);
    if (r.now_ns <= 0) report.findings.push_back({db::Severity::note, "canary", what + r.note});
    else
      report.findings.push_back({r.drifted ? db::Severity::warning : db::Severity::fine, "canary",
                                 what + fmt::format("{} was stored, {} now ({:+.1f} %)", format_time(r.stored_ns), format_time(r.now_ns), 100 * (r.now_ns / r.stored_ns - 1))});
  }
  const bool is_fine = drift.drifted == 0;
  report.findings.push_back({is_fine ? db::Severity::fine : db::Severity::warning, "canary",
                             fmt::format("{} of {} measured took another time; rows that are stale from now on: {}, no longer: {}{}", drift.drifted, drift.measured, drift.stale, drift.fresh,
                                         is_fine ? "" : "; `loopwright tune` tunes what is stale")});
  cancelled = drift.cancelled;
  return Unit{};
}

Result<Exit> run_doctor(const DoctorArguments& a, const Context& context) {
  Result<db::CheckReport> checked = db::check_file(a.options.database);
  if (!checked.ok()) return advise_otherwise(checked.error());
  db::CheckReport& report = *checked;
  bool cancelled = false;
  if (a.canary > 0 && !report.is_damaged()) LW_CHECK(add_drift(a, report, cancelled, context));
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& f : report.findings)
      rows.push_back({{"severity", std::string(name(f.severity))}, {"check", f.check}, {"detail", f.detail}});
    print_json(rows);
  } else {
    fmt::print("{}", printable(report.text()));
  }
  return report.is_damaged() ? kDatabase : cancelled ? kPartial : kOk;
}

}  // namespace

Error advise_otherwise(Error error) {
  if (error.code == ErrorCode::db_corrupt)
    error.works = "a copy of the file, or a new one: move it away and tune again; nothing in it was changed";
  return error;
}

void add_doctor(CLI::App& db, Context& context) {
  auto check = std::make_shared<DoctorArguments>();
  CLI::App* doctor =
      db.add_subcommand("doctor", "check a database: integrity, digests, orphans, file system, permissions");
  doctor->add_option("file", check->options.database, "the database")->default_val(kDefaultDatabase);
  doctor->add_option("--canary", check->canary, "measure so many winners of this device again, and mark as stale what takes another time")
      ->check(CLI::Range(0, 100000));
  add_device_option(doctor, check->options.device);
  doctor->add_option("--worker", check->options.worker_path, "--canary: the program that measures (default: beside this one)");
  set_body(doctor, context, [check, &context] { return run_doctor(*check, context); });
}

}  // namespace loopwright::cli
