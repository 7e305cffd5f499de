#include "tuner/workload_run.h"

#include <algorithm>
#include <chrono>

namespace loopwright::tuner {
namespace {

constexpr std::size_t kKeptAtProbe = 8;

}  // namespace

WorkloadRun::WorkloadRun(RunContext& context, const graph::Workload& workload, Subject subject, ProbePlan probes,
                         std::vector<ShapeCount> shapes)
    : context_(context), workload_(workload), subject_(std::move(subject)), probes_(std::move(probes)),
      shapes_(std::move(shapes)) {
  result_.digest = workload.digest;
  result_.family = workload.family;
}

Status WorkloadRun::open() {
  LW_CHECK(context_.device->open(subject_.setup));
  for (Contender& c : contenders_) c.verified = c.is_final = false;
  LW_CHECK(context_.journal->open_workload({.text = workload_.text, .family = workload_.family, .accuracy = std::string(name(workload_.graph.accuracy()))}));
  probe_digests_.clear();
  for (std::size_t i = 0; i < probes_.search.size(); ++i) {
    LW_TRY(std::string digest, context_.journal->add_probe(probes_.search[i], name_role(i)));
    probe_digests_.push_back(std::move(digest));
  }
  if (default_ != nullptr) context_.device->set_default_time(result_.default_ns);
  return Unit{};
}

std::string_view WorkloadRun::name_role(std::size_t probe_index) const {
  constexpr std::string_view kRoles[] = {"middle", "high", "low"};
  return !context_.options->probes.empty() || probe_index >= std::size(kRoles) ? "user" : kRoles[probe_index];
}

void WorkloadRun::tell(const std::string& phase, bool event) {
  if (context_.report) context_.report(result_, phase, best_label_, event);
}

void WorkloadRun::blame(Outcome outcome, const std::string& detail) {
  // What a template does not take is no reason where something else was tried and failed.
  const bool was_rejected = result_.why_not.starts_with(name(Outcome::rejected));
  if (outcome == Outcome::ok || !(result_.why_not.empty() || (was_rejected && outcome != Outcome::rejected))) return;
  result_.why_not = std::string(name(outcome)) + ": " + detail.substr(0, detail.find('\n'));
}

std::string WorkloadRun::search_key(std::size_t probe_index) const {
  return workload_.digest.substr(0, 16) + "/" + std::to_string(probe_index);
}

Contender WorkloadRun::make_contender(const std::shared_ptr<Prepared>& prepared) const {
  Contender c;
  const Picks picks = prepared->picks();
  const bool is_default = std::all_of(prepared->choices.begin(), prepared->choices.end(), [](const Space::Choice& choice) {
    return !choice.domain.empty() && choice.domain.front() == choice.pick.value;
  });
  c.row = make_candidate_row(workload_.digest, prepared->template_name, picks, prepared->trace, is_default);
  c.candidate = {.digest = c.row.digest, .template_name = prepared->template_name, .picks = picks,
                 .trace = prepared->trace, .is_default = is_default, .artifact = nullptr};
  c.template_index = prepared->template_index;
  c.prepared = prepared;
  c.choices = prepared->choices;
  return c;
}

bool WorkloadRun::serves_everything(const Contender& c) const {
  const Guard& g = c.candidate.artifact->guard;
  if (g.alignment_bytes > 1) return false;
  for (const SymbolGuard& s : g.symbols) {
    if (s.multiple_of != 1) return false;
    for (const Symbol& symbol : subject_.symbols) {
      if (symbol.name == s.name && (s.lo > symbol.lo || s.hi < symbol.hi)) return false;
    }
  }
  return true;
}

Status WorkloadRun::record(const Contender& contender, std::size_t probe_index, const Verdict& verdict,
                           const Samples& samples, double compile_ns) {
  const bool failed = verdict.outcome != Outcome::ok;
  Journal::Entry entry{.candidate = contender.row, .probe = probe_digests_[probe_index],
                       .outcome = failed ? verdict.outcome : samples.outcome,
                       .code = failed ? verdict.code : samples.code,
                       .detail = failed ? verdict.detail : samples.detail, .samples = samples, .cases = verdict.cases,
                       .compile_ns = compile_ns};
  ++result_.trials;
  count(entry.outcome);
  blame(entry.outcome, entry.detail);
  return context_.journal->add(std::move(entry));
}

// ---------------------------------------------------------------- defaults

/// Compiles and verifies what an earlier process measured, or what was measured only as a trial so far.
bool WorkloadRun::make_ready(Contender& c) {
  if (c.candidate.artifact == nullptr) {
    Result<std::shared_ptr<const Artifact>> built = Error{};
    context_.pool->run(1, [&](std::size_t) {
      built = call_guarded([&]() -> Result<std::shared_ptr<const Artifact>> {
        if (c.prepared == nullptr) {
          Space space(c.candidate.picks);
          LW_TRY(Prepared prepared, subject_.builder->prepare(c.template_index, space, probes_.search.front()));
          c.prepared = std::make_shared<Prepared>(std::move(prepared));
        }
        return subject_.builder->compile(*c.prepared);
      });
    });
    if (!built.ok()) return false;
    c.candidate.artifact = *built;
    c.prepared = nullptr;
  }
  if (c.is_final) return true;
  if (context_.device->admit(c.candidate).outcome != Outcome::ok) return false;
  const Verdict verdict = context_.device->verify(c.candidate, c.verified ? Depth::rest : Depth::full);
  c.verified = c.is_final = verdict.outcome == Outcome::ok;
  if (!c.verified) {
    // It passed once: worth remembering, and never served.
    const auto noted = context_.journal->add({.candidate = c.row, .probe = probe_digests_[0], .outcome = verdict.outcome,
                                              .code = verdict.code, .detail = verdict.detail, .cases = verdict.cases});
    count(verdict.outcome);
    blame(verdict.outcome, verdict.detail);
    return noted.ok() && false;
  }
  return verdict.cases.empty() || context_.journal->add_cases(c.row, verdict.cases).ok();
}

Status WorkloadRun::try_defaults() {
  tell("default", true);
  for (int t = 0; t < subject_.builder->template_count() && !context_.is_cancelled(); ++t) {
    auto prepared = call_guarded([&] {
      const Interruption::Away away(context_.interruption);
      Space space;
      return subject_.builder->prepare(t, space, probes_.search.front());
    });
    if (!prepared.ok()) {
      count(classify_build_error(prepared.error().code));
      blame(classify_build_error(prepared.error().code), prepared.error().message());
      continue;
    }
    Contender c = make_contender(std::make_shared<Prepared>(std::move(*prepared)));
    c.row.is_default = c.candidate.is_default = true;
    if (const Journal::Failure* failure = context_.journal->find_failure(c.row.digest)) {
      count(failure->outcome);
      blame(failure->outcome, failure->detail);
      continue;
    }
    const auto from = std::chrono::steady_clock::now();
    Result<std::shared_ptr<const Artifact>> built = Error{};
    context_.pool->run(1, [&](std::size_t) {
      built = call_guarded([&] { return subject_.builder->compile(*c.prepared); });
    });
    const double compile_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count();
    Verdict verdict;
    Samples samples;
    if (!built.ok()) {
      verdict.outcome = classify_build_error(built.error().code);
      verdict.code = built.error().code;
      verdict.detail = built.error().message();
    } else {
      c.candidate.artifact = *built;
      verdict = context_.device->admit(c.candidate);
      if (verdict.outcome == Outcome::ok) verdict = context_.device->verify(c.candidate);
    }
    const KnownTrial* known = context_.journal->find(c.row.digest, probe_digests_[0]);
    Summary summary = known != nullptr ? known->summary : Summary{};
    if (known == nullptr || verdict.outcome != Outcome::ok) {
      if (verdict.outcome == Outcome::ok) {
        const Summary rival = default_ != nullptr ? default_->times.at(probe_digests_[0]) : Summary{};
        samples = race(*context_.device, c.candidate, probes_.search.front(), rival, RaceRule{});
        summary = summarise(samples.ns);
      }
      LW_CHECK(record(c, 0, verdict, samples, compile_ns));
    } else {
      ++result_.trials, count(known->outcome);
      blame(known->outcome, "in an earlier run");
    }
    if (verdict.outcome != Outcome::ok || samples.outcome != Outcome::ok || summary.n == 0) continue;
    c.verified = true;
    c.prepared = nullptr;
    c.times[probe_digests_[0]] = summary;
    contenders_.push_back(std::move(c));
    if (default_ == nullptr) {
      default_ = &contenders_.back();
      result_.default_ns = result_.best_ns = summary.median;
      result_.compared = true;
      best_label_ = default_->candidate.label();
      context_.device->set_default_time(summary.median);
    }
    tell("default", true);
    // The other templates' defaults are the search's first candidates; here they are only needed to serve what the
    // preferred one does not.
    if (serves_everything(contenders_.back())) break;
  }
  if (default_ == nullptr) return Unit{};
  LW_TRY(auto stored, context_.journal->recorder().read().list_best(
                          {.workload = workload_.digest, .device = context_.journal->keys().device,
                           .policy = context_.journal->keys().policy}));
  std::erase_if(stored, [](const db::BestEntry& e) { return !is_served(e.best.state); });
  std::vector<Served> served;
  for (Contender& c : contenders_) {
    // The preferred default, and below it the first one that asks for nothing.
    if (&c != default_ && (serves_everything(*default_) || !serves_everything(c))) continue;
    const double ns = c.times.begin()->second.median;
    served.push_back({.guard = Guard::both(whole_box(), c.candidate.artifact->guard), .contender = &c, .median_ns = ns,
                      .default_ns = result_.default_ns, .speedup = result_.default_ns / ns});
    if (serves_everything(c)) break;
  }
  if (stored.empty()) return serve(served, false);
  for (const Served& s : served) LW_CHECK(add_verified_default(*s.contender));
  return Unit{};
}

void WorkloadRun::keep(Contender contender) {
  const auto same = std::find_if(contenders_.begin(), contenders_.end(),
                                 [&](const Contender& k) { return k.row.digest == contender.row.digest; });
  if (same != contenders_.end()) {
    for (const auto& [probe, summary] : contender.times) same->times[probe] = summary;
    same->verified = same->verified || contender.verified;
    if (same->candidate.artifact == nullptr) same->candidate.artifact = contender.candidate.artifact;
  } else {
    contender.prepared = nullptr;
    contenders_.push_back(std::move(contender));
  }
  // Each probe keeps its fastest; defaults always stay.
  std::set<const Contender*> stay;
  for (const std::string& probe : probe_digests_) {
    std::vector<const Contender*> there;
    for (const Contender& c : contenders_) {
      if (c.times.contains(probe)) there.push_back(&c);
    }
    std::stable_sort(there.begin(), there.end(), [&](const Contender* a, const Contender* b) {
      return a->times.at(probe).median < b->times.at(probe).median;
    });
    if (there.size() > kKeptAtProbe) there.resize(kKeptAtProbe);
    stay.insert(there.begin(), there.end());
  }
  for (auto at = contenders_.begin(); at != contenders_.end();) {
    if (stay.contains(&*at) || at->candidate.is_default) {
      ++at;
      continue;
    }
    context_.device->release(at->row.digest);
    at = contenders_.erase(at);
  }
}

}  // namespace loopwright::tuner
