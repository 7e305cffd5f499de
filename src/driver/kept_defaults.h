// Default schedules in a database of the user's own, so that the next process does not compile them again.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/query.h"
#include "src/driver/defaults.h"

namespace loopwright::driver {

/// The rows are candidates that nobody verified and artifacts of a toolchain that names this very build of the library, so
/// that no other reader serves them. Whatever is wrong with the file is in `trouble`, and never an error.
class KeptDefaults {
 public:
  /// An empty path: nothing is found and nothing kept.
  KeptDefaults(std::string path, const Target& target);
  /// What `Defaults` made of the workload for this target before; empty when that is not there.
  std::vector<Variant> find(const graph::Workload& workload);
  /// To be written by `write`.
  void add(const graph::Workload& workload, std::vector<Default> defaults);
  /// In one transaction; makes the file. Waits about a second for another writer.
  void write();
  const std::string& trouble() const { return trouble_; }

 private:
  Result<std::vector<Variant>> read(const graph::Workload& workload) const;
  Status write_all() const;

  std::string path_, target_;
  db::ToolchainRow toolchain_;
  std::optional<db::Query> query_;
  std::vector<std::pair<graph::Workload, std::vector<Default>>> added_;
  std::string trouble_;
};

}  // namespace loopwright::driver
