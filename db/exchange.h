// Databases as text and into one another: export and import of JSON lines, merge, diff.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "db/rows.h"

namespace loopwright::db {

struct ExportOptions {
  bool with_trials = false;     ///< every trial and verification; otherwise what is served, and what it stands on
  bool with_artifacts = false;  ///< binaries in base64
};
/// One JSON object a line, sorted, keys sorted: the same content gives the same bytes, whatever file it is in.
Status export_lines(const std::string& path, std::ostream& out, const ExportOptions& options);

/// Which of two different best rows for the same range, device, toolchain and policy stays.
enum class MergePolicy : std::uint8_t { newest, fastest, most_rigorous, fail };
std::string_view name(MergePolicy policy);
std::optional<MergePolicy> parse_merge_policy(std::string_view text);

struct MergeOptions {
  MergePolicy policy = MergePolicy::newest;
  bool dry_run = false;          ///< count everything, write nothing
  bool with_artifacts = false;   ///< take foreign machine code too; it stays marked and is loaded only when asked
  std::string reason;            ///< goes into provenance
};
struct MergeReport {
  struct Counts {
    std::int64_t inserted = 0, replaced = 0, kept = 0, same = 0, ignored = 0;
  };
  std::map<std::string, Counts> tables;
  std::vector<std::string> conflicts;  ///< one line each: what differed and who won
  std::int64_t unverified = 0;         ///< best rows that must be built and verified here before they are served
  std::string text() const;
};
/// Merges JSON lines into the database at `path` (made when missing). All or nothing.
Result<MergeReport> import_lines(const std::string& path, std::istream& in, const MergeOptions& options);
/// Merges the database `source` into `path`.
Result<MergeReport> merge_file(const std::string& path, const std::string& source, const MergeOptions& options);

struct DiffEntry {
  char side = '<';  ///< `<` only in the first, `>` only in the second, `!` differs
  std::string table;
  std::string key;     ///< what names the row
  std::string detail;  ///< for `!`: the fields that differ, `median_ns 1200 → 1100`
};
/// Compares what is served (devices, workloads, ranges, candidates, best, plans), not trials. Sorted.
Result<std::vector<DiffEntry>> diff_files(const std::string& first, const std::string& second);

}  // namespace loopwright::db
