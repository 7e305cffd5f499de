#include "src/driver/defaults.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

namespace loopwright::driver {
namespace {

/// What a variant may assume of addresses.
enum class Addresses : std::uint8_t { aligned, any };

/// What was built for a range assumes it.
Default as_default(Guard guard, const Scheduled& scheduled, Artifact artifact) {
  artifact.guard = Guard::both(guard, artifact.guard);
  Variant variant{.guard = std::move(guard),
                  .artifact = std::make_shared<const Artifact>(std::move(artifact)),
                  .label = scheduled.template_name + " (default schedule, compiled now)",
                  .match = Match::untuned};
  return {std::move(variant), scheduled.template_name, scheduled.picks, scheduled.trace};
}

/// The first template whose default picks are not rejected, compiled. For any addresses: the first whose code assumes no
/// more of them than the dtypes ask for; not every template has such a variant.
Result<Default> compile_default(const graph::Workload& workload, const Target& target, Addresses addresses) {
  LW_TRY(const Job job, make_job(workload));
  Error last;
  for (const Template* t : templates_for(job, target)) {
    Space space(addresses == Addresses::any ? Picks{{"aligned", 0}} : Picks{});
    const Result<Scheduled> scheduled = run_template(job, *t, space, target);
    Result<Artifact> artifact = scheduled.ok() ? build(*scheduled, target) : Result<Artifact>(scheduled.error());
    const bool fits = artifact.ok() && (addresses == Addresses::aligned || artifact->guard.alignment_bytes <= 1);
    if (fits) return as_default({}, *scheduled, std::move(*artifact));
    if (!artifact.ok()) last = artifact.error();
  }
  return std::move(last).with_context("default schedule of workload " + workload.digest.substr(0, 12));
}

std::optional<Scheduled> schedule_default(const Job& job, const Target& target) {
  for (const Template* t : templates_for(job, target)) {
    Space space;
    if (auto scheduled = run_template(job, *t, space, target); scheduled.ok()) return std::move(*scheduled);
  }
  return std::nullopt;
}

bool chooses_alike(const Scheduled& a, const Scheduled& b) { return a.template_name == b.template_name && a.picks == b.picks; }

/// Carries out work 0 .. count on all cores; `work` throws nothing.
void share_out(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;  // the calling thread is one more
  const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t t = 1; t < std::min(most, count); ++t) others.emplace_back(take);
  take();
}

}  // namespace

Result<std::vector<Default>> compile_defaults(const graph::Workload& workload, const Target& target) {
  std::vector<Default> out;
  LW_TRY(Default first, compile_default(workload, target, Addresses::aligned));
  out.push_back(std::move(first));
  if (out.front().variant.artifact->guard.alignment_bytes <= 1) return out;
  LW_TRY(Default unaligned, compile_default(workload, target, Addresses::any));
  out.push_back(std::move(unaligned));
  return out;
}

std::vector<RangedDefault> schedule_ranges(const Job& job, const Target& target) {
  constexpr std::int64_t kWide = 4, kSmallest = 64;
  if (target.kind != TargetKind::cuda || job.naive.symbols.size() != 1) return {};
  const std::optional<Scheduled> general = schedule_default(job, target);
  if (!general) return {};
  std::vector<RangedDefault> out;
  const Symbol all = job.naive.symbols[0].symbol;
  for (std::int64_t hi = all.hi / kWide; hi >= std::max(kSmallest, all.lo); hi /= kWide) {
    const bool is_last = hi / kWide < std::max(kSmallest, all.lo);
    const std::int64_t lo = is_last ? all.lo : hi / kWide + 1;
    Job part = job;
    Symbol& symbol = part.naive.symbols[0].symbol;
    symbol.lo = lo, symbol.hi = hi;
    std::optional<Scheduled> scheduled = schedule_default(part, target);
    if (!scheduled || chooses_alike(*scheduled, *general)) continue;
    const bool goes_on = !out.empty() && chooses_alike(*scheduled, out.back().scheduled) && out.back().guard.symbols[0].lo == hi + 1;
    if (!goes_on) {
      out.push_back({Guard{{{symbol.name, lo, hi, 1}}, 1}, std::move(*scheduled)});
      continue;
    }
    // One kernel for both: with the bounds of both.
    symbol.hi = out.back().guard.symbols[0].hi;
    Space same(scheduled->picks);
    for (const Template* t : templates_for(part, target))
      if (t->name == scheduled->template_name)
        if (auto wider = run_template(part, *t, same, target); wider.ok()) out.back() = {Guard{{{symbol.name, lo, symbol.hi, 1}}, 1}, std::move(*wider)};
  }
  return out;
}

void Defaults::compile(const Target& target) {
  std::vector<Entry*> entries;
  for (auto& [digest, entry] : by_digest_) entries.push_back(&entry);
  std::vector<std::vector<RangedDefault>> ranges(entries.size());
  const auto guarded = [](Entry& entry, const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      entry.thrown = std::current_exception();  // for the thread that asks for it
    }
  };
  share_out(entries.size(), [&](std::size_t i) {
    guarded(*entries[i], [&] {
      if (const auto job = make_job(*entries[i]->workload); job.ok()) ranges[i] = schedule_ranges(*job, target);
      entries[i]->ranged.resize(ranges[i].size());
    });
  });
  struct Part {
    std::size_t entry;
    std::optional<std::size_t> range;  ///< nothing: the general ones
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i]->thrown) continue;
    parts.push_back({i, std::nullopt});
    for (std::size_t r = 0; r < ranges[i].size(); ++r) parts.push_back({i, r});
  }
  std::vector<std::exception_ptr> thrown(parts.size());
  share_out(parts.size(), [&](std::size_t i) {
    Entry& entry = *entries[parts[i].entry];
    try {
      if (!parts[i].range) {
        entry.general = compile_defaults(*entry.workload, target);
        return;
      }
      const RangedDefault& ranged = ranges[parts[i].entry][*parts[i].range];
      if (auto artifact = build(ranged.scheduled, target); artifact.ok())
        entry.ranged[*parts[i].range] = as_default(ranged.guard, ranged.scheduled, std::move(*artifact));
    } catch (...) {
      thrown[i] = std::current_exception();
    }
  });
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (thrown[i]) entries[parts[i].entry]->thrown = thrown[i];
}

Result<std::vector<Default>> Defaults::of(const graph::Workload& workload) const {
  const Entry& entry = by_digest_.at(workload.digest);
  if (entry.thrown) std::rethrow_exception(entry.thrown);
  LW_TRY(const std::vector<Default>& general, *entry.general);
  std::vector<Default> out;
  for (const std::optional<Default>& d : entry.ranged)
    if (d) out.push_back(*d);
  out.insert(out.end(), general.begin(), general.end());
  return out;
}

}  // namespace loopwright::driver
