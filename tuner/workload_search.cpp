// The search of a workload: propose, rank, build, verify, measure, learn.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "src/support/digest.h"
#include "tuner/workload_run.h"

namespace loopwright::tuner {
namespace {

constexpr std::size_t kLeastBatch = 8;
constexpr std::size_t kLeastLessons = 24;     ///< before a ranking is worth anything
constexpr std::size_t kBlindOversample = 2;   ///< proposals for each candidate of a batch
constexpr std::size_t kRankedOversample = 6;  ///< the same once a model can rank
constexpr double kExploreShare = 0.25;        ///< of a batch that ignores the ranking
constexpr int kBarrenRounds = 8;              ///< rounds without a new candidate: the space is exhausted
constexpr std::int64_t kPatience = 256;       ///< candidates without an improvement of kImprovement
constexpr double kImprovement = 0.005;
constexpr std::size_t kMaxLessons = 2000;

std::uint64_t mix_seed(std::uint64_t seed, const std::string& word) {
  const std::string digest = sha256_hex(std::to_string(seed) + "/" + word);
  return std::stoull(digest.substr(0, 15), nullptr, 16);
}

}  // namespace

Status WorkloadRun::search(double deadline_s) {
  if (default_ == nullptr || context_.now_s() >= deadline_s) return Unit{};
  const double from_s = context_.now_s();
  const bool has_ranges = !subject_.symbols.empty();
  const double search_end_s = deadline_s - (deadline_s - from_s) * (has_ranges ? 0.3 : 0.1);
  const std::size_t count = probes_.search.size();
  double used_share = 0;
  for (std::size_t i = 0; i < count && !context_.is_cancelled(); ++i) {
    const double share = count == 1 ? 1 : i == 0 ? 0.5 : 0.5 / static_cast<double>(count - 1);
    used_share += share;
    const std::int64_t max_trials = context_.options->max_trials;
    const auto trials = max_trials == 0 ? 0 : std::max<std::int64_t>(1, std::llround(static_cast<double>(max_trials) * share));
    // What an earlier probe left is the later ones'.
    LW_CHECK(search_at(i, from_s + (search_end_s - from_s) * used_share, trials));
  }
  if (best_random_ns_ > 0) result_.gain_random = std::max(1.0, result_.default_ns / best_random_ns_);
  if (best_evolution_ns_ > 0) result_.gain_evolution = std::max(1.0, result_.default_ns / best_evolution_ns_);
  LW_CHECK(context_.journal->flush());
  if (context_.is_cancelled()) return Unit{};
  return decide(deadline_s);
}

Status WorkloadRun::search_at(std::size_t probe_index, double deadline_s, std::int64_t max_trials) {
  const std::string key = search_key(probe_index);
  const auto ended = context_.ended_searches.find(key);
  const bool has_ended = ended != context_.ended_searches.end();
  // A search that was finished by an earlier process is repeated from the journal exactly as far as it went.
  const std::int64_t limit = has_ended ? ended->second : max_trials > 0 ? max_trials : std::numeric_limits<std::int64_t>::max();
  if (has_ended) deadline_s = kInfinity;
  lessons_.clear();
  time_by_image_.clear();
  best_at_probe_ = {};
  const std::uint64_t seed = mix_seed(context_.options->seed, workload_.digest + "/" + std::to_string(probe_index));
  const int templates = subject_.builder->template_count();
  const bool evolves = context_.options->search != "random";
  const int random_first = max_trials > 0 ? static_cast<int>(std::clamp<std::int64_t>(max_trials / 4, 8, 32)) : 32;
  const auto search = evolves ? make_evolution_search(templates, seed, random_first) : make_random_search(templates, seed);
  std::string why_not;
  model_ = context_.options->cost_model ? make_xgboost_model(why_not) : nullptr;
  SearchRandom random{seed ^ 0x5bd1e995};
  // The same for every process of a run: proposals depend on it.
  const std::size_t batch = std::max(kLeastBatch, 2 * static_cast<std::size_t>(context_.pool->threads()));
  std::vector<Proposal> proposals;
  for (int t = 0; t < templates; ++t) proposals.push_back({.template_index = t, .fill_with_defaults = true, .origin = Origin::first});
  for (const Contender& c : contenders_) {
    proposals.push_back({.template_index = c.template_index, .kept = c.candidate.picks, .fill_with_defaults = true, .origin = Origin::first});
  }
  std::set<std::string> seen;
  std::int64_t processed = 0, improved_at = 0;
  double best_ns = kInfinity;
  int barren = 0;
  const auto is_over = [&] {
    return context_.is_cancelled() || context_.now_s() >= deadline_s || processed >= limit ||
           (!has_ended && max_trials == 0 && processed - improved_at >= kPatience);
  };
  while (!is_over()) {
    const bool ranked = model_ != nullptr && lessons_.size() >= kLeastLessons;
    if (proposals.empty()) {
      proposals = search->propose(static_cast<int>(batch * (ranked ? kRankedOversample : kBlindOversample)));
    }
    std::vector<Attempt> attempts = prepare_batch(proposals, probe_index, seen);
    proposals.clear();
    if (attempts.empty()) {
      if (++barren >= kBarrenRounds) break;
      continue;
    }
    barren = 0;
    if (attempts.front().origin != Origin::first) rank_batch(attempts, batch, random);
    for (const Attempt& a : attempts) seen.insert(a.prepared->kernel_digest);
    LW_CHECK(process_batch(attempts, probe_index, *search, deadline_s, limit, processed));
    if (best_at_probe_.n > 0 && best_at_probe_.median < best_ns * (1 - kImprovement)) {
      best_ns = best_at_probe_.median;
      improved_at = processed;
    }
  }
  if (!context_.is_cancelled() && !has_ended) {
    context_.ended_searches[key] = processed;
    // Ended by itself, or after enough to call it a search.
    if (barren >= kBarrenRounds || processed >= limit || processed >= static_cast<std::int64_t>(batch)) {
      context_.ended_searches[key + "/whole"] = 1;
    }
    if (context_.state_changed) context_.state_changed();
  }
  return Unit{};
}

std::vector<WorkloadRun::Attempt> WorkloadRun::prepare_batch(const std::vector<Proposal>& proposals,
                                                             std::size_t probe_index,
                                                             const std::set<std::string>& seen) {
  std::vector<Result<Prepared>> prepared(proposals.size(), Error{});
  context_.pool->run(proposals.size(), [&](std::size_t i) {
    prepared[i] = call_guarded([&] {
      Space space = proposals[i].make_space();
      return subject_.builder->prepare(proposals[i].template_index, space, probes_.search[probe_index]);
    });
  });
  std::vector<Attempt> attempts;
  std::set<std::string> here;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (!prepared[i].ok()) {
      count(classify_build_error(prepared[i].error().code));
      continue;
    }
    const std::string& digest = prepared[i]->kernel_digest;
    if (seen.contains(digest) || !here.insert(digest).second) continue;
    attempts.push_back({std::make_shared<Prepared>(std::move(*prepared[i])), proposals[i].origin});
  }
  return attempts;
}

void WorkloadRun::rank_batch(std::vector<Attempt>& attempts, std::size_t batch, SearchRandom& random) {
  if (attempts.size() <= batch) return;
  std::vector<float> scores;
  if (model_ != nullptr && lessons_.size() >= kLeastLessons) {
    std::vector<std::vector<float>> features;
    std::vector<double> times;
    const std::size_t first = lessons_.size() > kMaxLessons ? lessons_.size() - kMaxLessons : 0;
    for (std::size_t i = first; i < lessons_.size(); ++i) {
      features.push_back(lessons_[i].features);
      times.push_back(lessons_[i].time_ns);
    }
    const Interruption::Away away(context_.interruption);
    model_->train(features, times);
    features.clear();
    for (const Attempt& a : attempts) features.push_back(a.prepared->features);
    scores = model_->score(features);
  }
  if (!scores.empty()) {
    std::vector<std::size_t> order(attempts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    // Some of the batch is drawn from the rest, so that the model also sees what it thinks little of.
    const auto explore = static_cast<std::size_t>(static_cast<double>(batch) * kExploreShare);
    for (std::size_t i = batch - explore; i < batch; ++i) std::swap(order[i], order[i + random.below(order.size() - i)]);
    std::vector<Attempt> sorted;
    for (std::size_t i = 0; i < batch; ++i) sorted.push_back(std::move(attempts[order[i]]));
    attempts = std::move(sorted);
  }
  attempts.resize(std::min(attempts.size(), batch));
}

Status WorkloadRun::process_batch(std::vector<Attempt>& attempts, std::size_t probe_index, Search& search,
                                  double deadline_s, std::int64_t limit, std::int64_t& processed) {
  std::vector<bool> is_to_build(attempts.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const Contender c = make_contender(attempts[i].prepared);
    const bool has_artifact = std::any_of(contenders_.begin(), contenders_.end(), [&](const Contender& k) {
      return k.row.digest == c.row.digest && k.candidate.artifact != nullptr;
    });
    const bool known = context_.journal->find(c.row.digest, probe_digests_[probe_index]) != nullptr ||
                       context_.journal->find_failure(c.row.digest) != nullptr;
    is_to_build[i] = !known && !has_artifact;
  }
  std::vector<Result<std::shared_ptr<const Artifact>>> built(attempts.size(), Error{});
  std::vector<double> compile_ns(attempts.size(), 0);
  const auto build = [&](std::size_t i) {
    if (context_.is_cancelled() || !is_to_build[i]) return;
    const auto from = std::chrono::steady_clock::now();
    built[i] = call_guarded([&] { return subject_.builder->compile(*attempts[i].prepared); });
    compile_ns[i] = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count();
  };
  const auto take = [&](std::size_t i) -> Result<bool> {
    if (context_.is_cancelled() || context_.now_s() >= deadline_s || processed >= limit) return false;
    LW_CHECK(process(attempts[i], is_to_build[i] ? &built[i] : nullptr, compile_ns[i], probe_index, search));
    ++processed;
    built[i] = Error{};
    attempts[i].prepared = nullptr;
    return true;
  };
  // A GPU is timed by its own clock: the cores may build beside it.
  if (context_.options->target.kind == TargetKind::cuda) {
    LW_CHECK(context_.pool->run_beside(attempts.size(), build, take));
    return Unit{};
  }
  context_.pool->run(attempts.size(), build);
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    LW_TRY(const bool goes_on, take(i));
    if (!goes_on) break;
  }
  return Unit{};
}

Status WorkloadRun::process(Attempt& attempt, Result<std::shared_ptr<const Artifact>>* built, double compile_ns,
                            std::size_t probe_index, Search& search) {
  Contender c = make_contender(attempt.prepared);
  const std::string& probe = probe_digests_[probe_index];
  if (const Journal::Failure* failure = context_.journal->find_failure(c.row.digest)) {
    if (attempt.origin != Origin::first) count(failure->outcome);
    learn(attempt, probe_index, kInfinity, search);
    return Unit{};
  }
  if (const KnownTrial* known = context_.journal->find(c.row.digest, probe)) {
    if (attempt.origin != Origin::first || probe_index > 0) ++result_.trials, count(known->outcome);
    const bool usable = known->outcome == Outcome::ok && known->summary.n > 0;
    if (usable && !known->is_twin && (best_at_probe_.n == 0 || known->summary.median < best_at_probe_.median)) best_at_probe_ = known->summary;
    learn(attempt, probe_index, usable ? known->summary.median : kInfinity, search);
    if (!usable || known->is_twin) return Unit{};
    c.times[probe] = known->summary;
    keep(std::move(c));
    return Unit{};
  }
  Verdict verdict;
  Samples samples;
  std::string image;
  if (built != nullptr && !built->ok()) {
    verdict.outcome = classify_build_error(built->error().code);
    verdict.code = built->error().code;
    verdict.detail = built->error().message();
  } else {
    Contender* older = nullptr;
    for (Contender& k : contenders_) {
      if (k.row.digest == c.row.digest && k.candidate.artifact != nullptr) older = &k;
    }
    c.candidate.artifact = built != nullptr ? **built : older->candidate.artifact;
    c.verified = older != nullptr && older->verified;
    const auto& bytes = c.candidate.artifact->image;
    image = sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) + c.candidate.artifact->header_text();
    const auto twin = time_by_image_.find(image);
    if (twin != time_by_image_.end()) {
      // The same code under other names: once is enough.
      samples.ns = {twin->second};
      samples.detail = kTwinNote;
    } else {
      verdict = context_.device->admit(c.candidate);
      if (verdict.outcome == Outcome::ok && !c.verified) verdict = context_.device->verify(c.candidate);
      c.verified = verdict.outcome == Outcome::ok;
      if (c.verified) samples = race(*context_.device, c.candidate, probes_.search[probe_index], best_at_probe_, RaceRule{});
    }
  }
  const bool usable = verdict.outcome == Outcome::ok && samples.outcome == Outcome::ok && !samples.ns.empty();
  const Summary summary = usable ? summarise(samples.ns) : Summary{};
  const bool is_twin = !image.empty() && time_by_image_.contains(image);
  LW_CHECK(record(c, probe_index, verdict, samples, compile_ns));
  learn(attempt, probe_index, usable ? summary.median : kInfinity, search);
  bool improved = false;
  if (usable && !is_twin) {
    time_by_image_[image] = summary.median;
    improved = best_at_probe_.n == 0 || summary.median < best_at_probe_.median;
    if (improved) best_at_probe_ = summary;
    c.times[probe] = summary;
    c.prepared = nullptr;
    keep(std::move(c));
  } else {
    context_.device->release(c.row.digest);
  }
  tell("search", improved);
  return Unit{};
}

void WorkloadRun::learn(const Attempt& attempt, std::size_t probe_index, double time_ns, Search& search) {
  lessons_.push_back({attempt.prepared->features, time_ns});
  if (lessons_.size() > 2 * kMaxLessons) lessons_.erase(lessons_.begin(), lessons_.begin() + kMaxLessons);
  search.observe({.template_index = attempt.prepared->template_index, .choices = attempt.prepared->choices, .time_ns = time_ns});
  if (probe_index != 0 || !std::isfinite(time_ns)) return;
  double* best = attempt.origin == Origin::random      ? &best_random_ns_
                 : attempt.origin == Origin::evolution ? &best_evolution_ns_
                                                       : nullptr;
  if (best != nullptr && (*best == 0 || time_ns < *best)) *best = time_ns;
  if (time_ns < result_.best_ns) {
    result_.best_ns = time_ns;
    result_.compared = false;  // until the finals
    best_label_ = attempt.prepared->template_name + " " + print_picks(attempt.prepared->picks());
  }
}

}  // namespace loopwright::tuner
