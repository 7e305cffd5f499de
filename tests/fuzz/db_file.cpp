// A frozen database with bytes changed: whatever is there, opening, listing, looking up, checking and merging end, with
// an error or with rows that fit their digests. The input is a list of changes, so that small inputs reach everything:
// 4 bytes of offset (modulo the size) and one of value each; offset 0xFFFFFFxx cuts the file at xx/256 of its size.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "db/doctor.h"
#include "db/exchange.h"
#include "db/query.h"
#include "db/sqlite.h"

namespace {

using namespace loopwright;
namespace fs = std::filesystem;

/// Gone with the process.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "lw-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

const fs::path& folder() {
  static const Folder made;
  return made.path;
}

/// The frozen file of version 1 as SQLite lays it out.
const std::string& subject() {
  static const std::string bytes = [] {
    const fs::path path = folder() / "subject.db";
    {
      const auto connection = db::Connection::open(path.string(), db::Connection::Mode::create, 0);
      const std::string sql = read_bytes(LOOPWRIGHT_SOURCE_DIR "/tests/db/fixtures/version_1.sql");
      if (!connection.ok() || sql.empty() || !(*connection)->execute(sql).ok()) std::abort();
    }
    return read_bytes(path);
  }();
  return bytes;
}

std::string change(const std::string& original, const std::uint8_t* data, std::size_t size) {
  std::string bytes = original;
  for (std::size_t at = 0; at + 5 <= size && !bytes.empty(); at += 5) {
    const std::uint32_t offset = std::uint32_t{data[at]} << 24 | std::uint32_t{data[at + 1]} << 16 |
                                 std::uint32_t{data[at + 2]} << 8 | data[at + 3];
    if (offset >= 0xFFFFFF00u) bytes.resize(bytes.size() * (offset & 0xFF) / 256);
    else bytes[offset % bytes.size()] = static_cast<char>(data[at + 4]);
  }
  return bytes;
}

/// Everything that a reader asks. What is damaged is left out; asking goes on.
void read_all(const db::Query& query) {
  (void)query.info();
  (void)query.list_plans();
  (void)query.list_runs();
  (void)query.list_best({});
  (void)query.list_wanted();
  (void)query.list_blocks();
  (void)query.list_provenance();
  (void)query.list_trials({.with_samples = true});
  const auto devices = query.list_devices();
  const auto toolchains = query.list_toolchains();
  const auto workloads = query.list_workloads();
  if (const auto artifacts = query.list_artifacts(); artifacts.ok())
    for (const db::ArtifactRow& a : *artifacts) (void)query.load_artifact(a.digest, true);
  if (!devices.ok() || !toolchains.ok() || !workloads.ok()) return;
  for (const db::WorkloadRow& w : *workloads) {
    for (const db::DeviceRow& d : *devices) {
      for (const db::ToolchainRow& t : *toolchains) {
        (void)query.explain(w.digest, {.device = d, .toolchain = t, .policy = {}}, {{"s0", 17}}, 64);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fs::path path = folder() / "case.db";
  for (const char* beside : {"", "-wal", "-shm", "-journal"}) fs::remove(path.string() + beside);
  const std::string bytes = change(subject(), data, size);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (const auto query = db::Query::open(path.string()); query.ok()) read_all(*query);
  const auto report = db::check_file(path.string());
  const auto merged = db::merge_file((folder() / "into.db").string(), path.string(),
                                     {.dry_run = true, .with_artifacts = true});
  // An unchanged file is whole: the other answers mean something.
  if (bytes == subject() && (!report.ok() || report->is_damaged() || !merged.ok())) std::abort();
  return 0;
}
