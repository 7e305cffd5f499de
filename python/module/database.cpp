#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fstream>
#include <string>
#include <vector>

#include "db/canonical.h"
#include "db/doctor.h"
#include "db/exchange.h"
#include "db/query.h"
#include "python/module/errors.h"
#include "python/module/plan.h"

namespace nb = nanobind;

namespace loopwright::python {
namespace {

nb::dict read_info(const std::string& path) {
  const db::Query query = unwrap(db::Query::open(path));
  const db::FileInfo info = unwrap(query.info());
  nb::dict rows, out;
  for (const auto& [table, count] : info.row_counts) rows[table.c_str()] = count;
  out["path"] = info.path;
  out["uuid"] = info.uuid;
  out["created_by"] = info.created_by;
  out["schema"] = info.schema_version;
  out["generation"] = info.generation;
  out["bytes"] = info.file_bytes;
  out["access"] = info.access;
  out["rows"] = rows;
  return out;
}

/// JSON text of each row, as an export writes it.
template <class Row>
std::vector<std::string> write_lines(const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (const Row& row : rows) lines.push_back(db::write_line(row));
  return lines;
}

std::vector<std::string> list_rows(const std::string& path, const std::string& what) {
  const db::Query query = unwrap(db::Query::open(path));
  if (what == "workloads") return write_lines(unwrap(query.list_workloads()));
  if (what == "plans") return write_lines(unwrap(query.list_plans()));
  if (what == "runs") return write_lines(unwrap(query.list_runs()));
  if (what == "devices") return write_lines(unwrap(query.list_devices()));
  if (what == "trials") return write_lines(unwrap(query.list_trials({})));
  raise(Error{ErrorCode::bad_argument, "list rows of " + path, "\"" + what + "\"", "",
              "best, workloads, plans, runs, devices or trials"});
}

nb::list list_best(const std::string& path) {
  const db::Query query = unwrap(db::Query::open(path));
  nb::list out;
  for (const db::BestEntry& e : unwrap(query.list_best({}))) {
    nb::dict row;
    row["workload"] = e.candidate.workload;
    row["family"] = e.family;
    row["range"] = e.range.guard.text();
    row["device"] = e.device_model;
    row["median_ns"] = e.best.median_ns;
    row["default_ns"] = e.best.default_median_ns;
    row["speedup"] = e.best.speedup;
    row["worst_loss"] = e.best.worst_loss;
    row["state"] = std::string(name(e.best.state));
    row["verified"] = e.best.verified;
    row["variant"] = e.candidate.template_name + " " + e.candidate.picks;
    out.append(row);
  }
  return out;
}

db::MergeOptions make_options(const std::string& policy, bool dry_run, const std::string& reason) {
  const auto parsed = db::parse_merge_policy(policy);
  if (!parsed)
    raise(Error{ErrorCode::bad_argument, "merge", "policy \"" + policy + "\"", "",
                "newest, fastest, most-rigorous or fail"});
  return {.policy = *parsed, .dry_run = dry_run, .with_artifacts = false, .reason = reason};
}

nb::dict describe_merge(const db::MergeReport& report) {
  nb::dict tables, out;
  for (const auto& [table, c] : report.tables) {
    nb::dict counts;
    counts["inserted"] = c.inserted;
    counts["replaced"] = c.replaced;
    counts["kept"] = c.kept;
    counts["same"] = c.same;
    counts["ignored"] = c.ignored;
    tables[table.c_str()] = counts;
  }
  out["tables"] = tables;
  out["conflicts"] = report.conflicts;
  out["unverified"] = report.unverified;
  return out;
}

nb::dict merge(const std::string& path, const std::string& source, const std::string& policy, bool dry_run,
               const std::string& reason) {
  return describe_merge(unwrap(db::merge_file(path, source, make_options(policy, dry_run, reason))));
}

nb::dict import_lines(const std::string& path, const std::string& file, const std::string& policy,
                      bool dry_run, const std::string& reason) {
  std::ifstream in(file);
  if (!in) raise(Error{ErrorCode::io, "a file to import", "cannot read " + file, "", ""});
  return describe_merge(unwrap(db::import_lines(path, in, make_options(policy, dry_run, reason))));
}

void export_lines(const std::string& path, const std::string& file, bool with_trials, bool with_artifacts) {
  std::ofstream out(file);
  if (!out) raise(Error{ErrorCode::io, "a file to export to", "cannot write " + file, "", ""});
  unwrap(db::export_lines(path, out, {.with_trials = with_trials, .with_artifacts = with_artifacts}));
  if (!out.flush())
    raise(Error{ErrorCode::io, "export to " + file, "writing failed", "", "space on the disk"});
}

nb::list check(const std::string& path) {
  nb::list out;
  for (const db::Finding& f : unwrap(db::check_file(path)).findings) {
    nb::dict row;
    row["severity"] = std::string(name(f.severity));
    row["check"] = f.check;
    row["detail"] = f.detail;
    out.append(row);
  }
  return out;
}

}  // namespace

void bind_database(nb::module_& module) {
  module.def("database_info", read_info);
  module.def("database_rows", list_rows);
  module.def("database_best", list_best);
  module.def("database_merge", merge);
  module.def("database_import", import_lines);
  module.def("database_export", export_lines);
  module.def("database_check", check);
}

}  // namespace loopwright::python
