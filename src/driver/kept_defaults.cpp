#include "src/driver/kept_defaults.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>

#include "db/canonical.h"
#include "db/record.h"
#include "src/driver/candidate_row.h"
#include "src/runtime/device.h"

namespace loopwright::driver {
namespace {

constexpr std::int64_t kWaitForWriterMs = 1000;

/// The file that this code was loaded from, by size and time: another build may generate other code.
std::string name_this_build() {
  Dl_info info{};
  struct stat file {};
  if (dladdr(reinterpret_cast<const void*>(&name_this_build), &info) == 0 || stat(info.dli_fname, &file) != 0) return {};
  return "default schedules of the build " + std::to_string(file.st_size) + "." + std::to_string(file.st_mtim.tv_sec) + "." +
         std::to_string(file.st_mtim.tv_nsec);
}

/// The range is among the picks: schedules of two ranges may have the same trace.
db::CandidateRow make_row(const graph::Workload& workload, const Default& d) {
  Picks picks = d.picks;
  for (const SymbolGuard& g : d.variant.guard.symbols) picks.insert(picks.end(), {{"range_lo", g.lo}, {"range_hi", g.hi}});
  return make_candidate_row(workload.digest, d.template_name, picks, d.trace, true);
}

bool is_ranged(const db::CandidateRow& row) { return row.picks.find("\"range_hi\"") != std::string::npos; }

/// What Defaults always makes; without it a row was damaged.
bool serves_everything(const Variant& v) { return v.guard.symbols.empty() && v.artifact->guard.alignment_bytes <= 1; }

/// Ranges before what serves all sizes, aligned addresses before any: the order of Defaults.
bool comes_first(const Variant& a, const Variant& b) {
  if (a.guard.symbols.empty() != b.guard.symbols.empty()) return b.guard.symbols.empty();
  return a.artifact->guard.alignment_bytes > b.artifact->guard.alignment_bytes;
}

}  // namespace

KeptDefaults::KeptDefaults(std::string path, const Target& target) : path_(std::move(path)), target_(target.text()) {
  if (path_.empty()) return;
  toolchain_ = runtime::current_toolchain({});
  toolchain_.flags = name_this_build();
  toolchain_.digest = db::compute_digest(toolchain_);
  if (toolchain_.flags.empty()) {
    path_.clear();
    return;
  }
  auto query = db::Query::open(path_);
  if (query.ok()) query_ = std::move(*query);
  else if (query.error().code != ErrorCode::not_found) trouble_ = query.error().message();
}

std::vector<Variant> KeptDefaults::find(const graph::Workload& workload) {
  if (!query_) return {};
  auto found = read(workload);
  if (!found.ok()) trouble_ = found.error().message();
  else if (std::any_of(found->begin(), found->end(), serves_everything)) return std::move(*found);
  return {};
}

Result<std::vector<Variant>> KeptDefaults::read(const graph::Workload& workload) const {
  std::vector<Variant> out;
  LW_TRY(const auto candidates, query_->list_candidates(workload.digest));
  for (const db::CandidateRow& candidate : candidates) {
    if (!candidate.is_default) continue;
    LW_TRY(const auto artifacts, query_->list_artifacts(candidate.digest));
    for (const db::ArtifactRow& row : artifacts) {
      if (row.toolchain != toolchain_.digest || row.target != target_ || !row.origin.empty()) continue;
      LW_TRY(Artifact artifact, query_->load_artifact(row.digest));
      Variant variant{.label = candidate.template_name + " (default schedule, compiled before)", .match = Match::untuned, .origin = Origin::kept};
      if (is_ranged(candidate)) variant.guard.symbols = artifact.guard.symbols;
      variant.artifact = std::make_shared<const Artifact>(std::move(artifact));
      out.push_back(std::move(variant));
    }
  }
  std::stable_sort(out.begin(), out.end(), comes_first);
  return out;
}

void KeptDefaults::add(const graph::Workload& workload, std::vector<Default> defaults) {
  if (!path_.empty()) added_.emplace_back(workload, std::move(defaults));
}

void KeptDefaults::write() {
  if (added_.empty()) return;
  const Status written = write_all();
  if (!written.ok() && trouble_.empty()) trouble_ = written.error().message();
  added_.clear();
}

Status KeptDefaults::write_all() const {
  // Unchecked: what is read back fits its digest, and a whole look at a large file would take longer than compiling.
  LW_TRY(db::Recorder recorder,
         db::Recorder::open(path_, {.busy_timeout_ms = kWaitForWriterMs, .writer_wait_ms = kWaitForWriterMs, .check = false,
                                    .command = "keep default schedules"}));
  return recorder.commit_together([&]() -> Status {
    LW_TRY(const db::Digest toolchain, recorder.add_toolchain(toolchain_));
    for (const auto& [workload, defaults] : added_) {
      LW_CHECK(recorder.add_workload({.digest = workload.digest, .text = workload.text, .family = workload.family,
                                      .accuracy = std::string(name(workload.graph.accuracy()))}));
      for (const Default& d : defaults) {
        LW_TRY(const db::Digest candidate, recorder.add_candidate(make_row(workload, d)));
        LW_CHECK(recorder.put_artifact(candidate, toolchain, *d.variant.artifact));
      }
    }
    return Unit{};
  });
}

}  // namespace loopwright::driver
