// Putting rows of another file into this one: what import and merge share.
#pragma once

#include <string>
#include <vector>

#include "db/exchange.h"
#include "db/store.h"

namespace loopwright::db {

/// Version of the JSON lines.
inline constexpr int kExportFormat = 1;

/// Every artifact whose bytes fit its digest.
Result<std::vector<StoredArtifact>> read_stored_artifacts(Connection& connection);
std::string write_artifact_line(const StoredArtifact& artifact);
Result<StoredArtifact> parse_artifact_line(std::string_view line);

/// Everything that is to be merged, checked row by row against its digest.
struct Incoming {
  std::string uuid;
  std::vector<AnyRow> rows;  ///< in the order of AnyRow's tables
  std::vector<StoredArtifact> artifacts;
};
Result<Incoming> read_incoming(Connection& connection, bool with_artifacts);
Result<Incoming> read_incoming(std::istream& in, bool with_artifacts);

/// In one transaction, which is rolled back for a dry run.
Result<MergeReport> merge_rows(Connection& connection, const Incoming& incoming, const MergeOptions& options);

}  // namespace loopwright::db
