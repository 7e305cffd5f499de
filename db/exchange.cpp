#include "db/exchange.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "db/merge.h"
#include "db/storage.h"
#include "db/store.h"

namespace loopwright::db {

namespace {

/// Which rows an export without trials holds: what is served, and what it stands on.
const std::string kServedCandidates =
    "SELECT candidate_id FROM best UNION SELECT id FROM candidate WHERE is_default = 1";
const std::string kServedProbes = "SELECT probe_id FROM verification WHERE candidate_id IN (" + kServedCandidates + ")";
const std::string kServedRuns = "SELECT run_id FROM best WHERE run_id IS NOT NULL UNION SELECT run_id FROM verification "
                                "WHERE candidate_id IN (" + kServedCandidates + ")";

template <class Row>
std::string choose_rows(bool with_trials) {
  if (with_trials) return "";
  if constexpr (std::is_same_v<Row, TrialRow>) return "WHERE 0";
  if constexpr (std::is_same_v<Row, VerificationRow>) return "WHERE t.candidate_id IN (" + kServedCandidates + ")";
  if constexpr (std::is_same_v<Row, CandidateRow>) return "WHERE t.id IN (" + kServedCandidates + ")";
  if constexpr (std::is_same_v<Row, ProbeRow>) return "WHERE t.id IN (" + kServedProbes + ")";
  if constexpr (std::is_same_v<Row, RunRow>) return "WHERE t.id IN (" + kServedRuns + ")";
  return "";
}

template <std::size_t kIndex = 0>
Status write_tables(Connection& connection, std::ostream& out, bool with_trials) {
  if constexpr (kIndex < std::variant_size_v<AnyRow>) {
    using Row = std::variant_alternative_t<kIndex, AnyRow>;
    std::int64_t damaged_before = connection.damaged_rows;
    LW_TRY(auto rows, select_rows<Row>(connection, choose_rows<Row>(with_trials)));
    std::vector<std::string> lines;
    for (Row& row : rows) {
      // What a search remembers is of use only where its trials are.
      if constexpr (std::is_same_v<Row, RunRow>) {
        if (!with_trials) row.search_state.clear();
      }
      lines.push_back(write_line(row));
    }
    // Row numbers depend on history; text does not.
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) out << line << '\n';
    if (connection.damaged_rows != damaged_before) {
      out << "# " << connection.damaged_rows - damaged_before << " damaged rows of " << Fields<Row>::kTable
          << " left out\n";
    }
    return write_tables<kIndex + 1>(connection, out, with_trials);
  }
  return Unit{};
}

Status write_artifacts(Connection& connection, std::ostream& out) {
  LW_TRY(auto artifacts, read_stored_artifacts(connection));
  std::vector<std::string> lines;
  for (const StoredArtifact& artifact : artifacts) lines.push_back(write_artifact_line(artifact));
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) out << line << '\n';
  return Unit{};
}

/// Its digest, and what a person knows it by.
template <class Row>
std::string name_row(const Row& row) {
  std::string name = row.digest.substr(0, 16);
  if constexpr (std::is_same_v<Row, WorkloadRow>) name += " " + row.family;
  if constexpr (std::is_same_v<Row, DeviceRow>) name += " " + row.model;
  if constexpr (std::is_same_v<Row, RangeRow>) name += " " + row.guard.text();
  if constexpr (std::is_same_v<Row, CandidateRow>) name += " " + row.template_name + " " + row.picks;
  return name;
}

/// What names a best row in both files: everything that makes it unique.
std::string name_best(const BestRow& row) {
  return "range " + row.range.substr(0, 12) + " device " + row.device.substr(0, 12) + " toolchain " +
         row.toolchain.substr(0, 12) + " policy " + row.policy.substr(0, 12);
}

template <class Row>
Status diff_table(Connection& first, Connection& second, std::vector<DiffEntry>& out) {
  const std::string served = std::is_same_v<Row, CandidateRow> ? choose_rows<Row>(false) : "";
  LW_TRY(auto left, select_rows<Row>(first, served));
  LW_TRY(auto right, select_rows<Row>(second, served));
  if constexpr (std::is_same_v<Row, PlanRow>) {
    for (auto* rows : {&left, &right}) {
      for (PlanRow& plan : *rows) plan.created_ns = 0;  // when it was stored makes no difference to what is served
    }
  }
  std::map<std::string, const Row*> rows_left;
  std::map<std::string, const Row*> rows_right;
  auto key = [](const Row& row) {
    if constexpr (std::is_same_v<Row, BestRow>) return name_best(row);
    if constexpr (std::is_same_v<Row, PlanRow>) return row.name + " " + row.digest.substr(0, 16);
    return name_row(row);
  };
  for (const Row& row : left) rows_left[key(row)] = &row;
  for (const Row& row : right) rows_right[key(row)] = &row;
  std::string table(Fields<Row>::kTable);
  for (const auto& [name, row] : rows_left) {
    auto other = rows_right.find(name);
    if (other == rows_right.end()) {
      out.push_back({'<', table, name, ""});
      continue;
    }
    std::vector<std::string> differences = list_differences(*row, *other->second);
    if (differences.empty()) continue;
    std::string detail;
    for (const std::string& difference : differences) detail += (detail.empty() ? "" : "; ") + difference;
    out.push_back({'!', table, name, detail});
  }
  for (const auto& [name, row] : rows_right) {
    if (!rows_left.contains(name)) out.push_back({'>', table, name, ""});
  }
  return Unit{};
}

}  // namespace

Status export_lines(const std::string& path, std::ostream& out, const ExportOptions& options) {
  LW_TRY(auto connection, open_for_reading(path, 2000, false));
  LW_CHECK(connection->execute("BEGIN"));  // one moment of the file, whoever writes meanwhile
  LW_TRY(std::string uuid, connection->query_text("SELECT value FROM meta WHERE key = 'uuid'"));
  nlohmann::json head = {{"table", "meta"}, {"format", kExportFormat}, {"schema", current_schema_version()}};
  // The file's identity would make equal content unequal; provenance needs it, so it is a comment.
  out << head.dump() << "\n# uuid " << uuid << '\n';
  LW_CHECK(write_tables(*connection, out, options.with_trials));
  if (options.with_artifacts) LW_CHECK(write_artifacts(*connection, out));
  LW_CHECK(connection->execute("COMMIT"));
  out.flush();
  if (out) return Unit{};
  return Error{ErrorCode::io, "write an export of " + path, "it does not take any more", "the stream", "one that is open, and space where it ends"};
}

Result<std::vector<DiffEntry>> diff_files(const std::string& first, const std::string& second) {
  LW_TRY(auto left, open_for_reading(first, 2000, false));
  LW_TRY(auto right, open_for_reading(second, 2000, false));
  std::vector<DiffEntry> out;
  LW_CHECK(diff_table<DeviceRow>(*left, *right, out));
  LW_CHECK(diff_table<ToolchainRow>(*left, *right, out));
  LW_CHECK(diff_table<PolicyRow>(*left, *right, out));
  LW_CHECK(diff_table<WorkloadRow>(*left, *right, out));
  LW_CHECK(diff_table<RangeRow>(*left, *right, out));
  LW_CHECK(diff_table<CandidateRow>(*left, *right, out));
  LW_CHECK(diff_table<BestRow>(*left, *right, out));
  LW_CHECK(diff_table<BlockRow>(*left, *right, out));
  LW_CHECK(diff_table<PlanRow>(*left, *right, out));
  return out;
}

}  // namespace loopwright::db
