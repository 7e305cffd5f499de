#include "tuner/rebuild.h"

#include <algorithm>
#include <map>

#include "db/canonical.h"
#include "loopwright/schedule.h"
#include "src/runtime/cuda_info.h"
#include "tuner/device_choice.h"
#include "tuner/metered_device.h"

namespace loopwright::tuner {
namespace {

Result<std::shared_ptr<const Artifact>> build_from_trace(const Subject& subject, const std::string& trace, Interruption* interruption) {
  return call_guarded([&]() -> Result<std::shared_ptr<const Artifact>> {
    const Interruption::Away away(interruption);
    LW_TRY(const Prepared prepared, subject.builder->replay(trace));
    return subject.builder->compile(prepared);
  });
}

RebuiltVariant describe_wanting(const Wanting& wanting) {
  RebuiltVariant out{.workload = wanting.candidate.workload,
                     .label = wanting.candidate.template_name + " " + wanting.candidate.picks};
  for (const db::BestEntry& w : wanting.winners) out.ranges += (out.ranges.empty() ? "" : ", ") + w.range.guard.text();
  return out;
}

std::string refuse_to_build(const Error& error) { return "it cannot be built from its trace: " + error.message(); }

/// One workload with its device open.
class Rebuilder {
 public:
  Rebuilder(const RebuildContext& context, const Subject& subject) : context_(context), subject_(subject) {}

  Result<RebuiltVariant> rebuild(const Wanting& wanting) {
    RebuiltVariant out = describe_wanting(wanting);
    if (const Journal::Failure* failure = context_.journal->find_failure(wanting.candidate.digest)) {
      out.note = "it failed here before (" + std::string(name(failure->outcome)) + ": " + failure->detail + ")";
      return out;
    }
    Candidate candidate{.digest = wanting.candidate.digest, .template_name = wanting.candidate.template_name,
                        .trace = wanting.candidate.trace, .is_default = wanting.candidate.is_default};
    const auto built = build_from_trace(subject_, candidate.trace, context_.interruption);
    if (!built.ok()) {
      out.note = refuse_to_build(built.error());
      return out;
    }
    candidate.artifact = *built;
    Verdict verdict = context_.device->admit(candidate);
    if (verdict.outcome == Outcome::ok) verdict = context_.device->verify(candidate, Depth::full);
    context_.device->release(candidate.digest);
    LW_CHECK(context_.journal->add({.candidate = wanting.candidate, .outcome = verdict.outcome, .code = verdict.code,
                                    .detail = verdict.detail, .cases = verdict.cases, .is_trial = false}));
    LW_CHECK(context_.journal->flush());
    out.served = verdict.outcome == Outcome::ok;
    out.note = out.served ? "built and verified here"
                          : "refused, " + std::string(name(verdict.outcome)) + ": " + verdict.detail;
    if (out.served) LW_CHECK(store(wanting, *candidate.artifact));
    return out;
  }

 private:
  Status store(const Wanting& wanting, const Artifact& artifact) {
    db::Recorder& recorder = context_.journal->recorder();
    return recorder.commit_together([&]() -> Status {
      LW_CHECK(recorder.put_artifact(wanting.candidate.digest, context_.journal->keys().toolchain, artifact));
      for (const db::BestEntry& w : wanting.winners) {
        db::BestRow best = w.best;
        best.verified = true;
        LW_CHECK(recorder.put_best(best));
      }
      return Unit{};
    });
  }

  const RebuildContext& context_;
  const Subject& subject_;
};

/// Rows in use of this kind of device; the others are told why they stay as they are.
Result<std::vector<db::BestEntry>> keep_comparable(const db::Query& query, const db::DeviceRow& here,
                                                   const std::string& generator, std::vector<db::BestEntry> rows,
                                                   RebuildReport& report) {
  LW_TRY(const auto devices, query.list_devices());
  LW_TRY(const auto toolchains, query.list_toolchains());
  const auto find = [](const auto& all, const db::Digest& digest) {
    return std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.digest == digest; });
  };
  std::vector<db::BestEntry> kept;
  for (db::BestEntry& row : rows) {
    if (!is_served(row.best.state)) continue;
    const auto device = find(devices, row.best.device);
    const auto toolchain = find(toolchains, row.best.toolchain);
    if (device == devices.end() || toolchain == toolchains.end()) continue;  // damaged: `doctor` names it
    std::string why;
    if (device->kind != here.kind) {
      why = "it is for a device of kind " + device->kind + ", this one is " + here.kind +
            ": `loopwright db rebuild --device " + device->kind + "` takes it";
    } else if (toolchain->generator != generator) {
      why = "it is of generator " + toolchain->generator + ", this is " + generator + ": tune the workload again";
    }
    if (why.empty()) {
      kept.push_back(std::move(row));
      continue;
    }
    RebuiltVariant variant = describe_wanting({row.candidate, {row}});
    variant.note = std::move(why);
    report.variants.push_back(std::move(variant));
  }
  return kept;
}

/// Of the workload's defaults those of templates for this kind of device.
Result<std::vector<db::CandidateRow>> list_defaults(const db::Query& query, const db::Digest& workload, TargetKind kind) {
  LW_TRY(auto defaults, query.list_candidates(workload));
  std::erase_if(defaults, [&](const db::CandidateRow& c) {
    const auto& known = catalogue();
    const auto t = std::find_if(known.begin(), known.end(), [&](const Template& t) { return t.name == c.template_name; });
    return !c.is_default || (t != known.end() && t->kind != kind);
  });
  return defaults;
}

Status rebuild_all(const RebuildContext& context, const db::DeviceRow& here, RebuildReport& report) {
  db::Recorder& recorder = context.journal->recorder();
  LW_TRY(const auto workloads, recorder.read().list_workloads());
  for (const db::WorkloadRow& workload : workloads) {
    if (context.interruption->is_cancelled()) break;
    LW_TRY(auto winners, recorder.read().list_best({.workload = workload.digest}));
    LW_TRY(winners, keep_comparable(recorder.read(), here, context.journal->keys().generator, std::move(winners), report));
    LW_TRY(const auto defaults, list_defaults(recorder.read(), workload.digest, context.options->target.kind));
    LW_TRY(const auto wanting, list_wanting(recorder.read(), winners, defaults, context.options->target.text()));
    if (wanting.empty()) continue;
    LW_TRY(auto rebuilt, rebuild_workload(context, workload, wanting));
    std::move(rebuilt.begin(), rebuilt.end(), std::back_inserter(report.variants));
  }
  return Unit{};
}

}  // namespace

Result<std::vector<Wanting>> list_wanting(const db::Query& query, const std::vector<db::BestEntry>& winners,
                                          const std::vector<db::CandidateRow>& defaults, const std::string& target) {
  std::vector<Wanting> all;
  const auto add = [&](const db::CandidateRow& candidate) -> Wanting& {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Wanting& w) { return w.candidate.digest == candidate.digest; });
    return same != all.end() ? *same : all.emplace_back(Wanting{candidate, {}});
  };
  for (const db::BestEntry& w : winners) add(w.candidate).winners.push_back(w);
  for (const db::CandidateRow& c : defaults) add(c);
  std::vector<Wanting> wanting;
  for (Wanting& w : all) {
    LW_TRY(const auto artifacts, query.list_artifacts(w.candidate.digest));
    const bool has_code = std::any_of(artifacts.begin(), artifacts.end(), [&](const db::ArtifactRow& a) {
      return a.origin.empty() && a.target == target;
    });
    const bool verified = std::all_of(w.winners.begin(), w.winners.end(), [](const db::BestEntry& e) { return e.best.verified; });
    if (!has_code || !verified) wanting.push_back(std::move(w));
  }
  return wanting;
}

Result<std::vector<RebuiltVariant>> rebuild_workload(const RebuildContext& context, const db::WorkloadRow& workload,
                                                     const std::vector<Wanting>& wanting) {
  std::vector<RebuiltVariant> out;
  Result<graph::Workload> parsed = graph::parse_workload(workload.text);
  Result<Subject> subject = parsed.ok() ? context.bench->make_subject(*parsed, *context.options) : parsed.error();
  if (!subject.ok()) {
    for (const Wanting& w : wanting) {
      out.push_back(describe_wanting(w));
      out.back().note = "the workload cannot be built: " + subject.error().message();
    }
    return out;
  }
  const ProbePlan probes = plan_probes(subject->symbols, {}, subject->work);
  subject->setup.verify_probes = probes.verify;
  subject->setup.final_probes = probes.verify_finals;
  LW_CHECK(context.device->open(subject->setup));
  LW_CHECK(context.journal->open_workload(workload));
  Rebuilder rebuilder(context, *subject);
  for (const Wanting& w : wanting) {
    if (context.interruption->is_cancelled()) break;
    LW_TRY(RebuiltVariant variant, rebuilder.rebuild(w));
    out.push_back(std::move(variant));
  }
  return out;
}

namespace {

std::vector<RebuiltVariant> compile_wanting(const Workbench& bench, TuneOptions options, const db::WorkloadRow& workload,
                                            const std::vector<Wanting>& wanting, const std::string& target,
                                            Interruption& interruption) {
  std::vector<RebuiltVariant> out;
  const auto subject = [&]() -> Result<Subject> {
    LW_TRY(options.target, Target::parse(target));
    LW_TRY(const graph::Workload parsed, graph::parse_workload(workload.text));
    return bench.make_subject(parsed, options);
  }();
  for (const Wanting& w : wanting) {
    if (interruption.is_cancelled()) break;
    out.push_back(describe_wanting(w));
    if (!subject.ok()) {
      out.back().note = "the workload cannot be built: " + subject.error().message();
      continue;
    }
    const auto built = build_from_trace(*subject, w.candidate.trace, &interruption);
    out.back().note = built.ok() ? "compiled for " + target + ", not verified and not stored" : refuse_to_build(built.error());
  }
  return out;
}

}  // namespace

Result<RebuildReport> compile_only(const Workbench& bench, const TuneOptions& options, const TuneStop& stop, const Error& why) {
  Interruption interruption(stop);
  LW_TRY(const db::Query query, db::Query::open(options.database));
  RebuildReport report{.unverified_why = why.message()};
  const Workbench away = leave_for_subjects(bench, interruption);
  LW_TRY(const auto devices, query.list_devices());
  LW_TRY(const auto workloads, query.list_workloads());
  for (const db::WorkloadRow& workload : workloads) {
    LW_TRY(auto winners, query.list_best({.workload = workload.digest}));
    LW_TRY(winners, keep_comparable(query, {.kind = "cuda"}, away.toolchain(options).generator, std::move(winners), report));
    LW_TRY(const auto defaults, list_defaults(query, workload.digest, TargetKind::cuda));
    std::map<std::string, std::vector<db::BestEntry>> by_target;
    for (db::BestEntry& w : winners) {
      const auto device = std::find_if(devices.begin(), devices.end(), [&](const db::DeviceRow& d) { return d.digest == w.best.device; });
      by_target[device->target].push_back(std::move(w));  // keep_comparable has seen that there is one
    }
    for (const auto& [target, rows] : by_target) {
      if (interruption.is_cancelled()) break;
      LW_TRY(const auto wanting, list_wanting(query, rows, defaults, target));
      if (wanting.empty()) continue;
      auto compiled = compile_wanting(away, options, workload, wanting, target, interruption);
      std::move(compiled.begin(), compiled.end(), std::back_inserter(report.variants));
    }
  }
  report.cancelled = interruption.is_cancelled();
  return report;
}

Result<JournalKeys> begin_short_run(db::Recorder& recorder, const Workbench& bench, const TuneOptions& options, const Device& device) {
  LW_TRY(const db::DeviceRow here, bench.fingerprint(options));
  const db::ToolchainRow toolchain = bench.toolchain(options);
  JournalKeys keys{.device_hard = db::compute_hard_digest(here), .generator = toolchain.generator};
  LW_TRY(keys.device, recorder.add_device(here));
  LW_TRY(keys.toolchain, recorder.add_toolchain(toolchain));
  LW_TRY(keys.policy, recorder.add_policy({.name = options.device, .text = device.policy()}));
  LW_TRY(keys.run, recorder.begin_run({.command = options.command_line, .seed = options.seed, .generator = keys.generator,
                                       .device = keys.device, .toolchain = keys.toolchain, .policy = keys.policy}));
  LW_CHECK(recorder.set_run_state(keys.run, db::RunState::finished));
  return keys;
}

Result<RebuildReport> rebuild_with(const Workbench& bench, const TuneOptions& options,
                                   const TuneStop& stop) {
  Interruption interruption(stop);
  LW_TRY(db::Recorder recorder, db::Recorder::open(options.database, {.create = false, .command = options.command_line}));
  LW_TRY(const auto made, bench.make_device(options));
  MeteredDevice device(*made, interruption);
  LW_TRY(const db::DeviceRow here, bench.fingerprint(options));
  LW_TRY(const JournalKeys keys, begin_short_run(recorder, bench, options, device));
  Journal journal(recorder, keys);
  RebuildReport report;
  const Workbench away = leave_for_subjects(bench, interruption);
  LW_CHECK(rebuild_all({.bench = &away, .options = &options, .device = &device, .journal = &journal, .interruption = &interruption},
                       here, report));
  LW_CHECK(recorder.set_run_state(keys.run, db::RunState::finished));
  report.cancelled = interruption.is_cancelled();
  return report;
}

}  // namespace loopwright::tuner

namespace loopwright {

Result<RebuildReport> rebuild(const TuneOptions& options, const TuneStop& stop) {
  const tuner::Workbench bench = tuner::make_workbench();
  LW_TRY(const tuner::DeviceChoice choice, tuner::parse_device(options.device));
  if (choice.base == "cpu") return tuner::rebuild_with(bench, options, stop);
  const auto gpus = runtime::list_cuda_devices();
  return gpus.ok() ? tuner::rebuild_with(bench, options, stop) : tuner::compile_only(bench, options, stop, gpus.error());
}

}  // namespace loopwright
