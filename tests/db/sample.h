// A small database with something in every table, folders that go away, and child processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "db/record.h"

namespace loopwright::db::test {

/// A folder of its own, removed with everything in it: in memory where the machine has /dev/shm, because most tests are
/// about content, or on the disk of temporary files.
class TempFolder {
 public:
  explicit TempFolder(bool on_disk = false);
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

DeviceRow sample_device();
ToolchainRow sample_toolchain();
DeviceMatch sample_match();
std::string sample_workload_text();
Artifact sample_artifact(std::uint8_t fill);

/// Digests of what `fill_sample` stored.
struct Sample {
  Digest device, toolchain, policy, workload, run;
  Digest probe;                    ///< s0=17
  std::vector<Digest> ranges;      ///< tokens in 1..64, tokens in 65..8192 % 8
  std::vector<Digest> candidates;  ///< default, then the winner of each range
  std::vector<Digest> artifacts;   ///< of each candidate
};
/// Deterministic but for the run's digest.
Sample fill_sample(Recorder& recorder);
/// fill_sample into a new file, closed again.
Sample make_sample_file(const std::string& path);

/// A trial of the sample's default candidate.
TrialRow sample_trial(const Sample& sample, const Digest& run, std::int64_t sequence);

/// Runs `body` in a forked child that holds no database; its exit status is what `body` returns, or 1000 + signal.
int run_in_child(const std::function<int()>& body);
pid_t start_child(const std::function<int()>& body);
int wait_for(pid_t child);
/// For a child: gives up root, to whom no file is read-only. Needs folders that everybody may enter.
void become_nobody();

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

/// The text of what find_variants serves, for comparing: one line a variant with guard, candidate, times, artifact.
std::vector<std::string> describe_variants(const Query& query, const Digest& workload);

}  // namespace loopwright::db::test
