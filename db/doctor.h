// Looking after a file: `check` reads and reports, `prune` removes.
#pragma once

#include <string>
#include <vector>

#include "db/rows.h"

namespace loopwright::db {

enum class Severity : std::uint8_t { fine, note, warning, damage };
std::string_view name(Severity severity);

struct Finding {
  Severity severity = Severity::fine;
  std::string check;   ///< integrity, foreign_keys, digests, orphans, artifacts, file_system, permissions, writer, schema
  std::string detail;  ///< what was found and what to do
};
struct CheckReport {
  std::vector<Finding> findings;  ///< one at least for each check
  bool is_damaged() const;
  std::string text() const;
};
/// Recomputes every digest and looks at everything else that can be wrong. A file that cannot be opened is an error
/// with the code that opening gives.
Result<CheckReport> check_file(const std::string& path);

struct PruneOptions {
  UnixNs older_than_ns = 0;              ///< 0: age does not matter
  Digest device;                         ///< only rows of this device; empty: every device
  std::vector<BestState> states;         ///< best rows in these states go; their candidates too when nothing needs them
  bool trials = false;                   ///< trials and verifications that no best row's candidate needs
  bool artifacts = false;                ///< binaries of candidates that are neither best nor default
  bool dry_run = false;
};
struct PruneReport {
  std::int64_t best = 0, trials = 0, verifications = 0, candidates = 0, artifacts = 0;
  std::int64_t bytes_freed = 0;
};
/// Needs to be the only writer; never removes what an active best row stands on.
Result<PruneReport> prune_file(const std::string& path, const PruneOptions& options);

}  // namespace loopwright::db
