// find_variants and explain: what is stored for a workload, how well each row fits a device, and what serves a shape.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>

#include "db/query.h"
#include "db/store.h"

namespace loopwright::db {

namespace {

constexpr const char* kUnverified = "not built and verified here yet: run `loopwright db rebuild`";

struct Judged {
  Variant variant;
  std::string rejected;  ///< why it may not serve here whatever the shape; empty when it may
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(separator));
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return words;
}

/// Features that `there` has and `here` lacks.
std::vector<std::string> list_lacking(const std::vector<std::string>& there,
                                      const std::vector<std::string>& here) {
  std::vector<std::string> lacking;
  for (const std::string& feature : there) {
    if (std::find(here.begin(), here.end(), feature) == here.end()) lacking.push_back(feature);
  }
  return lacking;
}

/// Its numbers do not hold any more; its code is as right as before.
bool is_stale(const BestRow& best) { return best.state == BestState::stale; }

/// Whether code for a target text (`cpu:znver3:+avx2,+fma`) may run on the device. Another CPU model's code is refused
/// even if all named features are there, because a model implies more than it names.
bool can_run(const std::string& target, const DeviceRow& device) {
  if (target == device.target) return true;
  std::vector<std::string> parts = split(target, ':');
  if (parts.size() < 2 || parts[0] != device.kind) return false;
  bool is_generic = device.kind == "cpu" && parts[1].starts_with("x86-64");
  if (parts[1] != device.arch && !is_generic) return false;
  std::vector<std::string> needed = parts.size() > 2 ? split(parts[2], ',') : std::vector<std::string>();
  for (std::string& feature : needed) {
    if (feature.starts_with('+')) feature.erase(0, 1);
  }
  std::vector<std::string> mine = split(device.features, ' ');
  return list_lacking(needed, mine).empty();
}

double measure_log_ratio(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1)) /
                            static_cast<double>(std::max<std::int64_t>(b, 1))));
}

double measure_distance(const DeviceRow& a, const DeviceRow& b) {
  std::vector<std::string> first = split(a.features, ' ');
  std::vector<std::string> second = split(b.features, ' ');
  std::size_t different = list_lacking(first, second).size() + list_lacking(second, first).size();
  return measure_log_ratio(a.cores, b.cores) + measure_log_ratio(a.l3_bytes, b.l3_bytes) +
         measure_log_ratio(a.memory_bytes, b.memory_bytes) + (a.arch == b.arch ? 0 : 1) +
         0.25 * static_cast<double>(different);
}

void note(std::string& text, std::string_view what, const std::string& here, const std::string& there) {
  if (here == there) return;
  text += (text.empty() ? "" : "; ") + std::string(what) + " `" + here + "` here, `" + there + "` there";
}

/// Who asks, with what identifies it: digests are computed once.
struct Asker {
  explicit Asker(const DeviceMatch& m)
      : match(m), hard(compute_hard_digest(m.device)), device(compute_digest(m.device)), toolchain(compute_digest(m.toolchain)) {}
  const DeviceMatch& match;
  Digest hard, device, toolchain;
};

/// Quality, mismatch and distance of a row measured on `device` with `toolchain`; false when it is of another kind.
bool judge_device(const Asker& asker, const DeviceRow& device, const ToolchainRow& toolchain, Judged& judged) {
  const DeviceMatch& match = asker.match;
  const DeviceRow& here = match.device;
  if (here.kind != device.kind || (here.kind != "cpu" && here.arch != device.arch)) return false;
  std::string& text = judged.variant.mismatch;
  note(text, "arch", here.arch, device.arch);
  note(text, "cores", std::to_string(here.cores), std::to_string(device.cores));
  note(text, "features", here.features, device.features);
  note(text, "memory bytes", std::to_string(here.memory_bytes), std::to_string(device.memory_bytes));
  note(text, "generator", match.toolchain.generator, toolchain.generator);
  note(text, "model", here.model, device.model);
  note(text, "target", here.target, device.target);
  note(text, "clock kHz", std::to_string(here.clock_khz), std::to_string(device.clock_khz));
  note(text, "compiler", match.toolchain.compiler, toolchain.compiler);
  note(text, "driver", match.toolchain.driver, toolchain.driver);
  note(text, "flags", match.toolchain.flags, toolchain.flags);
  bool hard = asker.hard == device.hard_digest && match.toolchain.generator == toolchain.generator;
  if (!hard) {
    judged.variant.quality = Match::nearest;
    judged.variant.distance = measure_distance(here, device);
    return true;
  }
  bool same = asker.device == device.digest && asker.toolchain == toolchain.digest;
  judged.variant.quality = same ? Match::exact : Match::soft_mismatch;
  if (!same && text.empty()) text = "other soft properties of the device";
  return true;
}

/// How much a guard lets through, as a logarithm: smaller is narrower.
double measure_width(const Guard& guard) {
  double width = 0;
  for (const SymbolGuard& symbol : guard.symbols) {
    double values = (static_cast<double>(symbol.hi) - static_cast<double>(symbol.lo)) /
                        static_cast<double>(std::max<std::int64_t>(symbol.multiple_of, 1)) +
                    1;
    width += std::log2(std::max(values, 1.0)) - 64;  // a symbol without guard counts as 64
  }
  return width;
}

bool comes_first(const Judged& a, const Judged& b) {
  if (a.variant.quality != b.variant.quality) return a.variant.quality < b.variant.quality;
  if (is_stale(a.variant.best) != is_stale(b.variant.best)) return is_stale(b.variant.best);
  if (a.variant.distance != b.variant.distance) return a.variant.distance < b.variant.distance;
  double width_a = measure_width(a.variant.guard);
  double width_b = measure_width(b.variant.guard);
  if (width_a != width_b) return width_a < width_b;
  std::int64_t alignment_a = a.variant.guard.alignment_bytes;
  std::int64_t alignment_b = b.variant.guard.alignment_bytes;
  if (alignment_a != alignment_b) return alignment_a > alignment_b;
  if (a.variant.best.speedup != b.variant.best.speedup)
    return a.variant.best.speedup > b.variant.best.speedup;
  return a.variant.candidate.digest < b.variant.candidate.digest;
}

/// Everything stored for one workload, judged for one device.
class Judge {
 public:
  Judge(Connection& connection, const Query& query, const DeviceMatch& match)
      : connection_(connection), query_(query), match_(match), asker_(match) {}

  Result<std::vector<Judged>> judge(const Digest& workload) {
    LW_TRY(auto rows, select_rows<BestRow>(connection_,
                                           "WHERE t.range_id IN (SELECT r.id FROM range r JOIN workload w "
                                           "ON w.id = r.workload_id WHERE w.digest = ?)",
                                           workload));
    for (BestRow& row : rows) LW_CHECK(judge_best(std::move(row)));
    drop_older_policies();
    LW_TRY(auto defaults, select_rows<CandidateRow>(connection_,
                                                    "WHERE t.is_default = 1 AND t.workload_id = (SELECT id "
                                                    "FROM workload WHERE digest = ?)",
                                                    workload));
    for (CandidateRow& candidate : defaults) LW_CHECK(judge_default(std::move(candidate)));
    std::sort(judged_.begin(), judged_.end(), comes_first);
    return std::move(judged_);
  }

 private:
  Status judge_best(BestRow row) {
    auto range = select_row<RangeRow>(connection_, row.range);
    auto candidate = select_row<CandidateRow>(connection_, row.candidate);
    const auto& device = select_once(devices_, row.device);
    const auto& toolchain = select_once(toolchains_, row.toolchain);
    for (const Error* error :
         {range.ok() ? nullptr : &range.error(), candidate.ok() ? nullptr : &candidate.error(),
          device.ok() ? nullptr : &device.error(), toolchain.ok() ? nullptr : &toolchain.error()}) {
      if (error == nullptr) continue;
      bool is_row_trouble = error->code == ErrorCode::db_corrupt || error->code == ErrorCode::not_found;
      if (!is_row_trouble) return *error;
      return Unit{};  // the damaged row is counted; what stood on it is not served
    }
    Judged judged;
    judged.variant.guard = range->guard;
    judged.variant.candidate = *std::move(candidate);
    judged.variant.best = std::move(row);
    bool comparable = judge_device(asker_, *device, *toolchain, judged);
    const BestRow& best = judged.variant.best;
    if (!comparable) {
      judged.rejected = "measured on another kind of device: " + device->kind + " " + device->arch;
      judged.variant.quality = Match::nearest;
    } else if (!match_.policy.empty() && best.policy != match_.policy) {
      judged.rejected = "measured under another policy";
    } else if (best.state != BestState::active && !is_stale(best)) {
      judged.rejected = "its state is " + std::string(name(best.state));
    } else if (!best.verified) {
      judged.rejected = kUnverified;
    } else if (judged.variant.quality > match_.worst) {
      judged.rejected = "match " + std::string(name(judged.variant.quality)) + " is worse than asked for";
    } else {
      LW_TRY(judged.rejected, find_block(best.candidate));
    }
    if (is_stale(best)) judged.variant.mismatch += (judged.variant.mismatch.empty() ? "" : "; ") + std::string("stale: other times when it was measured again");
    LW_CHECK(choose_artifact(judged.variant));
    judged_.push_back(std::move(judged));
    return Unit{};
  }

  Status judge_default(CandidateRow candidate) {
    Judged judged;
    judged.variant.quality = Match::untuned;
    judged.variant.mismatch = "the template's default, for shapes without a tuned range";
    judged.variant.candidate = std::move(candidate);
    const Digest& digest = judged.variant.candidate.digest;
    LW_TRY(auto verifications, query_.list_verifications(digest));
    bool passed =
        std::any_of(verifications.begin(), verifications.end(), [](const auto& v) { return v.passed; });
    bool failed =
        std::any_of(verifications.begin(), verifications.end(), [](const auto& v) { return !v.passed; });
    if (match_.worst < Match::untuned) {
      judged.rejected = "defaults are not asked for";
    } else if (failed || !passed) {
      judged.rejected = failed ? "it failed verification" : "it was never verified";
    } else {
      LW_TRY(judged.rejected, find_block(digest));
    }
    LW_CHECK(choose_artifact(judged.variant));
    judged_.push_back(std::move(judged));
    return Unit{};
  }

  /// Rows that most others refer to.
  template <class Row>
  const Result<Row>& select_once(std::map<Digest, Result<Row>>& rows, const Digest& digest) {
    const auto known = rows.find(digest);
    return known != rows.end() ? known->second : rows.emplace(digest, select_row<Row>(connection_, digest)).first->second;
  }

  Result<std::string> find_block(const Digest& candidate) const {
    LW_TRY(const auto blocks, select_rows<BlockRow>(connection_, "WHERE t.candidate = ? ORDER BY t.id", candidate));
    for (const BlockRow& block : blocks) {
      bool here = block.device_hard.empty() || block.device_hard == asker_.hard;
      bool now = block.generator.empty() || block.generator == match_.toolchain.generator;
      if (here && now) return "blocked: " + block.reason;
    }
    return std::string();
  }

  /// Built here before built elsewhere, for exactly this target before for a lesser one, this toolchain, newest.
  Status choose_artifact(Variant& variant) const {
    LW_TRY(auto artifacts, query_.list_artifacts(variant.candidate.digest));
    auto rank = [&](const ArtifactRow& a) {
      return std::tuple(!a.origin.empty(), a.target != match_.device.target,
                        a.toolchain != asker_.toolchain, -a.created_ns);
    };
    const ArtifactRow* chosen = nullptr;
    for (const ArtifactRow& artifact : artifacts) {
      if (!can_run(artifact.target, match_.device)) continue;
      if (chosen == nullptr || rank(artifact) < rank(*chosen)) chosen = &artifact;
    }
    if (chosen == nullptr) return Unit{};
    variant.artifact = chosen->digest;
    variant.artifact_target = chosen->target;
    variant.artifact_is_foreign = !chosen->origin.empty();
    return Unit{};
  }

  /// Without a policy asked for, one range may have winners of several: the one measured last stays.
  void drop_older_policies() {
    if (!match_.policy.empty()) return;
    for (Judged& a : judged_) {
      for (const Judged& b : judged_) {
        const BestRow& mine = a.variant.best;
        const BestRow& other = b.variant.best;
        bool same_place =
            mine.range == other.range && mine.device == other.device && mine.toolchain == other.toolchain;
        bool other_serves = b.rejected.empty() && mine.policy != other.policy;
        bool newer = std::tie(other.updated_ns, other.policy) > std::tie(mine.updated_ns, mine.policy);
        if (a.rejected.empty() && same_place && other_serves && newer) {
          a.rejected = "a newer winner was measured under another policy";
        }
      }
    }
  }

  Connection& connection_;
  const Query& query_;
  const DeviceMatch& match_;
  const Asker asker_;
  std::map<Digest, Result<DeviceRow>> devices_;
  std::map<Digest, Result<ToolchainRow>> toolchains_;
  std::vector<Judged> judged_;
};

double measure_shape_distance(const Bindings& a, const Bindings& b) {
  double distance = 0;
  for (const auto& [symbol, value] : a) {
    auto other = b.find(symbol);
    distance += other == b.end() ? 64 : measure_log_ratio(value, other->second);
  }
  return distance;
}

/// What was measured at the probe nearest to the shape, fastest first.
Result<std::vector<Alternative>> list_alternatives(const Query& query, const Digest& workload,
                                                   const DeviceMatch& match, const Bindings& values) {
  LW_TRY(auto trials, query.list_trials({.workload = workload, .policy = match.policy}));
  LW_TRY(auto devices, query.list_devices());
  LW_TRY(auto probes, query.list_probes(workload));
  LW_TRY(auto candidates, query.list_candidates(workload));
  Digest hard = compute_hard_digest(match.device);
  std::erase_if(trials, [&](const TrialRow& trial) {
    auto device =
        std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d.digest == trial.device; });
    return trial.outcome != Outcome::ok || trial.n == 0 || device == devices.end() ||
           device->hard_digest != hard;
  });
  const ProbeRow* nearest = nullptr;
  for (const ProbeRow& probe : probes) {
    bool measured =
        std::any_of(trials.begin(), trials.end(), [&](const auto& t) { return t.probe == probe.digest; });
    if (!measured) continue;
    if (nearest == nullptr ||
        measure_shape_distance(values, probe.values) < measure_shape_distance(values, nearest->values)) {
      nearest = &probe;
    }
  }
  if (nearest == nullptr) return std::vector<Alternative>();
  std::map<Digest, double> median_by_candidate;  // the last one measured
  for (const TrialRow& trial : trials) {
    if (trial.probe == nearest->digest) median_by_candidate[trial.candidate] = trial.median_ns;
  }
  std::vector<Alternative> out;
  for (CandidateRow& candidate : candidates) {
    auto found = median_by_candidate.find(candidate.digest);
    if (found == median_by_candidate.end()) continue;
    out.push_back({std::move(candidate), nearest->values, found->second, 1});
  }
  std::sort(out.begin(), out.end(), [](const Alternative& a, const Alternative& b) {
    return std::tie(a.median_ns, a.candidate.digest) < std::tie(b.median_ns, b.candidate.digest);
  });
  for (Alternative& item : out) item.ratio = item.median_ns / out.front().median_ns;
  return out;
}

std::string describe(const Variant& variant) {
  return variant.candidate.template_name + " " + variant.candidate.picks + " (" +
         variant.candidate.digest.substr(0, 12) + ")";
}

}  // namespace

Result<VariantList> Query::find_variants(const Digest& workload, const DeviceMatch& match) const {
  std::int64_t damaged_before = connection_->damaged_rows;
  LW_TRY(auto judged, Judge(*connection_, *this, match).judge(workload));
  VariantList list;
  for (Judged& item : judged) {
    if (item.rejected.empty()) list.variants.push_back(std::move(item.variant));
    else if (item.rejected == kUnverified) ++list.unverified;
  }
  list.damaged_rows = connection_->damaged_rows - damaged_before;
  return list;
}

Result<Explanation> Query::explain(const Digest& workload, const DeviceMatch& match, const Bindings& values,
                                   std::int64_t alignment_bytes) const {
  std::int64_t damaged_before = connection_->damaged_rows;
  Explanation out;
  LW_TRY(out.workload, find_workload(workload));
  LW_TRY(auto judged, Judge(*connection_, *this, match).judge(workload));
  const Variant* served = nullptr;
  out.considered.reserve(judged.size());
  for (Judged& item : judged) {
    Considered considered{std::move(item.variant), false, item.rejected};
    const Guard& guard = considered.variant.guard;
    if (considered.reason.empty() && !guard.holds(values)) {
      considered.reason = "its range does not hold the shape: " + guard.text();
    } else if (considered.reason.empty() &&
               alignment_bytes % std::max<std::int64_t>(guard.alignment_bytes, 1) != 0) {
      considered.reason =
          "its range needs pointers aligned to " + std::to_string(guard.alignment_bytes) + " bytes";
    } else if (considered.reason.empty() && considered.variant.artifact.empty()) {
      considered.reason = "no machine code for this device is stored: run `loopwright db rebuild`";
    } else if (considered.reason.empty() && considered.variant.artifact_is_foreign) {
      considered.reason = "its machine code was built elsewhere and is loaded only when allowed";
    } else if (considered.reason.empty() && served != nullptr) {
      considered.reason = "another variant comes before it";
    } else if (considered.reason.empty()) {
      considered.served = true;
      considered.reason = "first whose range holds; match " + std::string(name(considered.variant.quality));
    }
    out.considered.push_back(std::move(considered));
    if (out.considered.back().served) served = &out.considered.back().variant;
  }
  LW_TRY(out.alternatives, list_alternatives(*this, workload, match, values));
  LW_TRY(out.trials_by_outcome, count_outcomes({.workload = workload}));
  out.damaged_rows = connection_->damaged_rows - damaged_before;
  std::ostringstream summary;
  summary << "at " << (values.empty() ? "the only shape" : write_bindings(values)) << " ";
  if (served == nullptr) {
    summary << "nothing serves: " << out.considered.size() << " variants considered, all rejected";
  } else {
    summary << describe(*served) << " serves, match " << name(served->quality);
    if (served->best.median_ns > 0) {
      summary << ", " << served->best.speedup << "x the default, expected loss "
              << served->best.mean_loss * 100 << " % (worst " << served->best.worst_loss * 100 << " %)";
    }
  }
  out.summary = summary.str();
  return out;
}

}  // namespace loopwright::db
