// db info|list|merge|diff|import|rebuild|export|prune; doctor.cpp has db doctor.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "db/doctor.h"
#include "db/exchange.h"
#include "db/query.h"
#include "loopwright/runtime.h"
#include "loopwright/tune.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/runtime/cuda_info.h"

namespace loopwright::cli {
namespace {

Result<Exit> run_info(const std::string& path, const Context& context) {
  LW_TRY(db::Query query, db::Query::open(path));
  LW_TRY(const db::FileInfo info, query.info());
  LW_TRY(const auto outcomes, query.count_outcomes({}));
  if (context.json) {
    nlohmann::json trials = nlohmann::json::object();
    for (int i = 0; i < kOutcomeCount; ++i) trials[std::string(name(static_cast<Outcome>(i)))] = outcomes[i];
    print_json({{"path", info.path},
                {"uuid", info.uuid},
                {"created_by", info.created_by},
                {"created_ns", info.created_ns},
                {"schema", info.schema_version},
                {"generation", info.generation},
                {"bytes", info.file_bytes},
                {"journal", info.journal_mode},
                {"file_system", info.file_system},
                {"access", info.access},
                {"rows", info.row_counts},
                {"trials", trials}});
    return kOk;
  }
  fmt::print("{}\n  uuid {}\n  made {} by {}\n  schema {}, generation {}, {}, journal {} on {}, opened {}\n",
             info.path, info.uuid, format_date(info.created_ns), info.created_by, info.schema_version,
             info.generation, format_bytes(info.file_bytes), info.journal_mode, info.file_system,
             info.access);
  Table table({"table", "rows"});
  for (const auto& [name, rows] : info.row_counts) table.add({name, std::to_string(rows)});
  fmt::print("{}", table.text());
  Table trials({"trials", "count"});
  for (int i = 0; i < kOutcomeCount; ++i)
    if (outcomes[i] > 0)
      trials.add({std::string(name(static_cast<Outcome>(i))), std::to_string(outcomes[i])});
  fmt::print("{}", trials.text());
  return kOk;
}

Table list_best(const std::vector<db::BestEntry>& rows) {
  Table table({"workload", "family", "range", "device", {"median", "median_ns"}, {"", "default_ns"}, "ratio",
               {"loss", "worst_loss"}, "state", "variant"});
  for (const db::BestEntry& e : rows)
    table.add({digest_cell(e.candidate.workload), e.family, e.range.guard.text(), e.device_model,
               time_cell(e.best.median_ns), time_cell(e.best.default_median_ns), ratio_cell(e.best.speedup),
               percent_cell(e.best.worst_loss), std::string(name(e.best.state)),
               e.candidate.template_name + " " + e.candidate.picks});
  return table;
}

Table list_wanted(const std::vector<db::WantedRow>& rows) {
  Table table({"workload", {"shape", "symbols"}, "count", {"last seen", "last_seen_ns"}});
  for (const auto& r : rows) {
    std::string shape;
    for (const auto& [symbol, value] : r.values)
      shape += fmt::format("{}{}={}", shape.empty() ? "" : " ", symbol, value);
    table.add({digest_cell(r.workload), {shape, r.values}, count_cell(r.count), date_cell(r.last_seen_ns)});
  }
  return table;
}

Result<Table> make_list(const db::Query& query, const std::string& what) {
  if (what == "best") {
    LW_TRY(const auto rows, query.list_best({}));
    return list_best(rows);
  }
  if (what == "workloads") {
    Table table({"workload", "family", "accuracy"});
    LW_TRY(const auto rows, query.list_workloads());
    for (const auto& r : rows) table.add({digest_cell(r.digest), r.family, r.accuracy});
    return table;
  }
  if (what == "plans") {
    Table table({"plan", "graph", {"made", "created_ns"}});
    LW_TRY(const auto rows, query.list_plans());
    for (const auto& r : rows) table.add({r.name, digest_cell(r.graph_digest), date_cell(r.created_ns)});
    return table;
  }
  if (what == "runs") {
    Table table({"run", "state", {"started", "started_ns"}, {"ended", "ended_ns"}, {"budget", "budget_s"}, "command"});
    LW_TRY(const auto rows, query.list_runs());
    for (const auto& r : rows)
      table.add({{r.digest.substr(0, 12), r.digest}, std::string(name(r.state)), date_cell(r.started_ns),
                 date_cell(r.ended_ns), {fmt::format("{:.0f} s", r.budget_s), r.budget_s}, r.command});
    return table;
  }
  if (what == "devices") {
    Table table({"device", "kind", "model", "arch", "cores", "features"});
    LW_TRY(const auto rows, query.list_devices());
    for (const auto& r : rows) table.add({digest_cell(r.digest), r.kind, r.model, r.arch, count_cell(r.cores), r.features});
    return table;
  }
  if (what == "wanted") {
    LW_TRY(const auto rows, query.list_wanted());
    return list_wanted(rows);
  }
  Table table({"candidate", "outcome", {"median", "median_ns"}, {"p10", "p10_ns"}, {"p90", "p90_ns"}, "n",
               {"when", "created_ns"}, "error"});
  LW_TRY(const auto rows, query.list_trials({}));
  for (const auto& r : rows)
    table.add({digest_cell(r.candidate), std::string(name(r.outcome)), time_cell(r.median_ns), time_cell(r.p10_ns),
               time_cell(r.p90_ns), count_cell(r.n), date_cell(r.created_ns), {r.error.substr(0, r.error.find('\n')), r.error}});
  return table;
}

Result<Exit> run_list(const std::string& path, const std::string& what, const Context& context) {
  LW_TRY(db::Query query, db::Query::open(path));
  LW_TRY(const Table table, make_list(query, what));
  if (context.json) print_json(table.to_json());
  else fmt::print("{}", table.text());
  return kOk;
}

nlohmann::json to_json(const db::MergeReport& report) {
  nlohmann::json tables = nlohmann::json::object();
  for (const auto& [name, c] : report.tables)
    tables[name] = {{"inserted", c.inserted},
                    {"replaced", c.replaced},
                    {"kept", c.kept},
                    {"same", c.same},
                    {"ignored", c.ignored}};
  return {{"tables", tables}, {"conflicts", report.conflicts}, {"unverified", report.unverified}};
}

Exit print_merge(const db::MergeReport& report, const Context& context) {
  if (context.json) print_json(to_json(report));
  else fmt::print("{}", printable(report.text()));
  return kOk;
}

Result<Exit> run_diff(const std::string& first, const std::string& second, const Context& context) {
  LW_TRY(const auto entries, db::diff_files(first, second));
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& e : entries)
      rows.push_back(
          {{"side", std::string(1, e.side)}, {"table", e.table}, {"key", e.key}, {"detail", e.detail}});
    print_json(rows);
  } else {
    for (const auto& e : entries)
      fmt::print("{} {} {}{}{}\n", e.side, e.table, printable(e.key), e.detail.empty() ? "" : ": ", printable(e.detail));
    if (entries.empty()) fmt::print("no difference in what is served\n");
  }
  return kOk;
}

void add_readers(CLI::App& db, Context& context) {
  auto path = std::make_shared<std::string>("loopwright.db");
  CLI::App* info = db.add_subcommand("info", "what a database is and how much it holds");
  info->add_option("file", *path, "the database")->capture_default_str();
  set_body(info, context, [path, &context] { return run_info(*path, context); });

  auto list_path = std::make_shared<std::string>("loopwright.db");
  auto what = std::make_shared<std::string>("best");
  CLI::App* list = db.add_subcommand("list", "rows of a database as a table");
  list->add_option("file", *list_path, "the database")->capture_default_str();
  list->add_option("what", *what, "which rows")
      ->check(CLI::IsMember({"best", "workloads", "plans", "runs", "devices", "wanted", "trials"}))
      ->capture_default_str();
  set_body(list, context, [list_path, what, &context] { return run_list(*list_path, *what, context); });

  auto first = std::make_shared<std::string>(), second = std::make_shared<std::string>();
  CLI::App* diff = db.add_subcommand("diff", "how what two databases serve differs");
  diff->add_option("first", *first, "a database")->required();
  diff->add_option("second", *second, "another")->required();
  set_body(diff, context, [first, second, &context] { return run_diff(*first, *second, context); });
}

struct ExchangeArguments {
  std::string path, other;
  std::string policy = "newest";
  db::MergeOptions merge;
  db::ExportOptions exporting;
};

void add_merge_options(CLI::App* command, const std::shared_ptr<ExchangeArguments>& a) {
  command->add_option("--policy", a->policy, "which of two rows for the same range and device stays")
      ->check(CLI::IsMember({"newest", "fastest", "most-rigorous", "fail"}))
      ->capture_default_str();
  command->add_flag("--dry-run", a->merge.dry_run, "count, but write nothing");
  command->add_flag("--with-artifacts", a->merge.with_artifacts,
                    "take machine code too; it is never loaded unasked");
  command->add_option("--reason", a->merge.reason, "kept with every row that comes in");
}

Result<db::MergeOptions> merge_options(const ExchangeArguments& a) {
  db::MergeOptions options = a.merge;
  const auto policy = db::parse_merge_policy(a.policy);
  LW_BUG_IF(!policy, "policy " + a.policy);
  options.policy = *policy;
  return options;
}

void add_exchange(CLI::App& db, Context& context) {
  auto a = std::make_shared<ExchangeArguments>();
  CLI::App* merge = db.add_subcommand("merge", "take the rows of one database into another");
  merge->add_option("into", a->path, "the database that grows; made when missing")->required();
  merge->add_option("from", a->other, "the database that is read")->required();
  add_merge_options(merge, a);
  set_body(merge, context, [a, &context]() -> Result<Exit> {
    LW_TRY(const db::MergeOptions options, merge_options(*a));
    LW_TRY(const db::MergeReport report, db::merge_file(a->path, a->other, options));
    return print_merge(report, context);
  });

  auto i = std::make_shared<ExchangeArguments>();
  CLI::App* import = db.add_subcommand("import", "take exported JSON lines into a database");
  import->add_option("into", i->path, "the database that grows; made when missing")->required();
  import->add_option("from", i->other, "the file, or - for standard input")->required();
  add_merge_options(import, i);
  set_body(import, context, [i, &context]() -> Result<Exit> {
    LW_TRY(const db::MergeOptions options, merge_options(*i));
    std::ifstream file;
    if (i->other != "-") file.open(i->other);
    if (!file) return Error{ErrorCode::io, "a file to import", "cannot read " + i->other, "", ""};
    LW_TRY(const db::MergeReport report,
           db::import_lines(i->path, i->other == "-" ? std::cin : file, options));
    return print_merge(report, context);
  });

  auto e = std::make_shared<ExchangeArguments>();
  CLI::App* out =
      db.add_subcommand("export", "print a database as JSON lines, the same bytes for the same content");
  out->add_option("file", e->path, "the database")->default_val("loopwright.db");
  out->add_flag("--with-trials", e->exporting.with_trials, "every trial, not only what is served");
  out->add_flag("--with-artifacts", e->exporting.with_artifacts, "machine code in base64");
  set_body(out, context, [e]() -> Result<Exit> {
    const Status status = db::export_lines(e->path, std::cout, e->exporting);
    if (std::ferror(stdout) != 0) return kOk;  // as of any command, the end of the program says so
    if (!status.ok()) return advise_otherwise(status.error());
    return kOk;
  });
}

Result<Exit> run_rebuild(TuneOptions options, const Context& context) {
  const Result<Target> target = find_target(options.device);
  if (target.ok()) options.target = *target, note_older_driver(*target, context);
  // Without any GPU what is of one can still be compiled.
  else if (options.device.starts_with("cpu") || runtime::list_cuda_devices().ok()) return target.error();
  options.command_line = context.command_line;
  const auto leave = [&](const std::vector<TuneReport>&) {
    // Every variant was committed when it was done; what is still wanting is found again.
    const std::string device = options.device == "cpu" ? "" : " --device " + options.device;
    print_note("stopped; go on with: loopwright db rebuild " + quote_for_shell(options.database) + device, context.json);
    if (context.json) print_json(nlohmann::json::array());
    std::fflush(stdout);
    std::_Exit(kPartial);
  };
  LW_TRY(const RebuildReport report, rebuild(options, {.cancel = &watch_interrupts(), .abandon = leave}));
  Table table({"workload", "variant", "ranges", "served", "note"});
  for (const RebuiltVariant& v : report.variants)
    table.add({digest_cell(v.workload), v.label, v.ranges, {v.served ? "yes" : "no", v.served}, v.note});
  if (context.json) print_json(table.to_json());
  else if (report.variants.empty())
    fmt::print("every winner has verified code of {}\n", report.unverified_why.empty() ? "this machine" : "the device that it is of");
  else fmt::print("{}", table.text());
  if (report.unverified_why.empty()) return report.cancelled ? kPartial : kOk;
  print_note((report.variants.empty() ? "there was nothing to build: " : "nothing was verified: ") + report.unverified_why, context.json);
  return report.variants.empty() ? kOk : kPartial;
}

void add_rebuild(CLI::App& db, Context& context) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* rebuild = db.add_subcommand(
      "rebuild", "build from their traces and verify what was imported, or measured on another machine");
  rebuild->add_option("file", options->database, "the database")->default_val("loopwright.db");
  rebuild->add_option("--worker", options->worker_path,
                      "the program that runs candidates (default: beside this one)");
  rebuild->add_option("--device", options->device, "cpu, cuda or cuda:N: whose rows, and what verifies them")
      ->default_val("cpu");
  set_body(rebuild, context, [options, &context] { return run_rebuild(*options, context); });
}

struct PruneArguments {
  std::string path = "loopwright.db";
  std::optional<std::string> older_than, device;
  std::vector<std::string> states;
  db::PruneOptions options;
};

/// The device whose digest begins so.
Result<db::Digest> find_device(const std::string& path, const std::string& prefix) {
  LW_TRY(const db::Query query, db::Query::open(path));
  LW_TRY(const auto devices, query.list_devices());
  std::vector<db::Digest> found;
  std::string known;
  for (const db::DeviceRow& d : devices) {
    known += (known.empty() ? "" : ", ") + shorten_digest(d.digest) + " " + d.model;
    if (!prefix.empty() && d.digest.starts_with(prefix)) found.push_back(d.digest);
  }
  if (found.size() == 1) return found.front();
  return Error{ErrorCode::not_found, "the device `" + prefix + "`", found.empty() ? "no digest begins so" : "several digests begin so", path,
               known.empty() ? "a database with devices" : known};
}

Result<Exit> run_prune(PruneArguments a, const Context& context) {
  if (a.older_than) {
    constexpr double kMostDays = 50 * 365;  // before there was a clock
    LW_TRY(const double age_s, parse_duration_s(*a.older_than, kMostDays));
    a.options.older_than_ns = db::read_clock_ns() - static_cast<std::int64_t>(age_s * 1e9);
  }
  if (a.device) {
    LW_TRY(a.options.device, find_device(a.path, *a.device));
  }
  for (const std::string& state : a.states) {
    const auto parsed = db::parse_best_state(state);
    LW_BUG_IF(!parsed, "state " + state);
    a.options.states.push_back(*parsed);
  }
  LW_TRY(const db::PruneReport r, db::prune_file(a.path, a.options));
  if (context.json) {
    print_json({{"best", r.best},
                {"trials", r.trials},
                {"verifications", r.verifications},
                {"candidates", r.candidates},
                {"artifacts", r.artifacts},
                {"bytes_freed", r.bytes_freed}});
  } else {
    const auto count = [](std::int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); };
    fmt::print("{}{}, {}, {}, {}, {}; {}\n", a.options.dry_run ? "would remove " : "removed ", count(r.best, "best row"),
               count(r.candidates, "candidate"), count(r.trials, "trial"), count(r.verifications, "verification"),
               count(r.artifacts, "artifact"), format_bytes(r.bytes_freed));
  }
  return kOk;
}

void add_prune(CLI::App& db, Context& context) {
  auto a = std::make_shared<PruneArguments>();
  CLI::App* prune = db.add_subcommand("prune", "remove what nobody needs; of what is served only stale rows, when --state says so");
  prune->add_option("file", a->path, "the database")->capture_default_str();
  prune->add_option("--older-than", a->older_than, "only rows older than this: 30d, 12h");
  prune->add_option("--device", a->device, "only rows of this device (its digest, or how that begins)");
  prune->add_option("--state", a->states, "best rows in this state")
      ->check(CLI::IsMember({"stale", "demoted", "blocked"}));
  prune->add_flag("--trials", a->options.trials, "trials that no served variant needs");
  prune->add_flag("--artifacts", a->options.artifacts,
                  "binaries of candidates that are neither best nor default");
  prune->add_flag("--dry-run", a->options.dry_run, "count, but remove nothing");
  set_body(prune, context, [a, &context] { return run_prune(*a, context); });
}

}  // namespace

void add_db(CLI::App& app, Context& context) {
  CLI::App* db = app.add_subcommand("db", "look at, exchange and look after databases");
  db->require_subcommand(1);
  db->fallthrough();
  add_readers(*db, context);
  add_doctor(*db, context);
  add_exchange(*db, context);
  add_rebuild(*db, context);
  add_prune(*db, context);
}

}  // namespace loopwright::cli
