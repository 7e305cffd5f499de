#include "src/driver/recording.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "db/query.h"
#include "db/record.h"

namespace loopwright::driver {
namespace {

struct Recording {
  std::shared_ptr<runtime::MissTable> table;
  std::string workload_text;
  std::vector<std::string> symbol_names;
};
/// By path, then by the workload's digest.
struct Recordings {
  std::mutex mutex;
  std::map<std::string, std::map<std::string, Recording>> files;
};

/// Never destroyed: plans that other threads run at exit count in it.
Recordings& all_recordings() {
  static auto* const recordings = new Recordings;
  return *recordings;
}

Status write_file(const std::string& path, std::map<std::string, Recording>& recordings) {
  std::vector<std::pair<runtime::MissTable*, std::vector<runtime::MissTable::Entry>>> taken;
  std::vector<db::WantedRow> rows;
  for (auto& [digest, recording] : recordings) {
    auto entries = recording.table->take();
    for (const runtime::MissTable::Entry& entry : entries) {
      db::WantedRow row{.workload = digest, .workload_text = recording.workload_text, .count = entry.count};
      for (std::size_t i = 0; i < entry.symbols.size(); ++i) row.values[recording.symbol_names[i]] = entry.symbols[i];
      rows.push_back(std::move(row));
    }
    taken.emplace_back(recording.table.get(), std::move(entries));
  }
  if (rows.empty()) return Unit{};
  Status written = db::create_database(path);
  if (written.ok()) written = db::note_wanted(path, rows);
  if (!written.ok())
    for (auto& [table, entries] : taken) table->put_back(entries);
  return written;
}

}  // namespace

std::shared_ptr<runtime::MissTable> find_recording(const std::string& path, const graph::Workload& workload,
                                                   const std::vector<std::string>& symbol_names) {
  Recordings& all = all_recordings();
  const std::lock_guard lock(all.mutex);
  Recording& recording = all.files[path][workload.digest];
  if (recording.table == nullptr)
    recording = {std::make_shared<runtime::MissTable>(symbol_names.size()), workload.text, symbol_names};
  return recording.table;
}

Status write_recordings() {
  Recordings& all = all_recordings();
  const std::lock_guard lock(all.mutex);
  Status first = Unit{};
  for (auto& [path, recordings] : all.files)
    if (Status written = write_file(path, recordings); !written.ok() && first.ok()) first = std::move(written);
  return first;
}

}  // namespace loopwright::driver
