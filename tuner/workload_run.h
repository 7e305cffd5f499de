// One workload from its default schedule to what is served.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tuner/build_pool.h"
#include "tuner/cost_model.h"
#include "tuner/interruption.h"
#include "tuner/journal.h"
#include "tuner/probes.h"
#include "tuner/race.h"
#include "tuner/range_probes.h"
#include "tuner/ranges.h"
#include "tuner/search.h"
#include "tuner/tuner.h"

namespace loopwright::tuner {

/// What the workloads of a run share.
struct RunContext {
  const TuneOptions* options = nullptr;
  Device* device = nullptr;
  BuildPool* pool = nullptr;
  Journal* journal = nullptr;
  Interruption* interruption = nullptr;
  std::function<double()> now_s;      ///< seconds of the run, earlier processes included
  /// Searches that ended, by workload and probe, with the number of candidates each had processed: a run that goes on
  /// must not search longer than the run that was stopped did.
  std::map<std::string, std::int64_t> ended_searches;
  std::function<void()> state_changed;  ///< `ended_searches` is new: save it
  /// Tells the observer; `event` = something happened that a person wants to see at once.
  std::function<void(const TunedWorkload&, const std::string& phase, const std::string& best_label, bool event)> report;
  bool is_cancelled() const { return interruption->is_cancelled(); }
};

/// A candidate that was measured and may be served.
struct Contender {
  Candidate candidate;
  db::CandidateRow row;
  int template_index = 0;
  std::shared_ptr<Prepared> prepared;     ///< kept until it is compiled
  std::vector<Space::Choice> choices;
  bool verified = false;                  ///< in this process, as every candidate is
  bool is_final = false;                  ///< and as a finalist is
  std::map<std::string, Summary> times;   ///< by probe digest, from searches
};

class WorkloadRun {
 public:
  WorkloadRun(RunContext& context, const graph::Workload& workload, Subject subject, ProbePlan probes,
              std::vector<ShapeCount> shapes);

  /// Opens the device and the journal for this workload; again after another workload was open.
  Status open();
  /// Builds, verifies and measures the templates' default schedules, and serves the best trusted one from now on.
  Status try_defaults();
  /// Searches until `deadline_s` of the run, then decides.
  Status search(double deadline_s);

  const TunedWorkload& result() const { return result_; }
  double default_ns() const { return result_.default_ns; }
  bool has_default() const { return default_ != nullptr; }

 private:
  struct Attempt {
    std::shared_ptr<Prepared> prepared;
    Origin origin = Origin::random;
  };
  Status search_at(std::size_t probe_index, double deadline_s, std::int64_t max_trials);
  std::vector<Attempt> prepare_batch(const std::vector<Proposal>& proposals, std::size_t probe_index,
                                     const std::set<std::string>& seen);
  void rank_batch(std::vector<Attempt>& attempts, std::size_t batch, SearchRandom& random);
  /// Builds what must be built, then verifies and measures one after the other.
  Status process_batch(std::vector<Attempt>& attempts, std::size_t probe_index, Search& search, double deadline_s,
                       std::int64_t limit, std::int64_t& processed);
  Status process(Attempt& attempt, Result<std::shared_ptr<const Artifact>>* built, double compile_ns,
                 std::size_t probe_index, Search& search);
  Status record(const Contender& contender, std::size_t probe_index, const Verdict& verdict, const Samples& samples,
                double compile_ns);
  void learn(const Attempt& attempt, std::size_t probe_index, double time_ns, Search& search);
  void keep(Contender contender);
  Contender make_contender(const std::shared_ptr<Prepared>& prepared) const;
  bool make_ready(Contender& contender);
  Status decide(double deadline_s);
  std::vector<Contender*> choose_finalists() const;
  std::vector<Final> measure_finals(const std::vector<Contender*>& finalists, const Bindings& probe, int rounds,
                                    std::string_view role);
  Status decide_box(const std::vector<Contender*>& finalists);
  class RangeTimes;
  Status decide_ranges(const std::vector<Contender*>& finalists, double deadline_s);
  std::string_view name_shape(const Bindings& shape) const;
  std::vector<Bindings> list_range_probes() const;
  Status serve_ranges(const std::vector<Contender*>& finalists, const std::vector<ServedRange>& ranges,
                      const std::vector<Bindings>& used, RangeTimes& times);
  struct Served {
    Guard guard;
    Contender* contender = nullptr;
    double median_ns = 0, default_ns = 0, speedup = 1;
    double worst_loss = 0, mean_loss = 0;
    std::int64_t held_out = 0;
  };
  Status serve(const std::vector<Served>& served, bool complete);
  Status add_verified_default(Contender& contender);
  Guard whole_box() const;
  bool serves_everything(const Contender& c) const;
  /// The main probe was searched, not only started.
  bool was_searched() const { return context_.ended_searches.contains(search_key(0) + "/whole"); }
  std::string search_key(std::size_t probe_index) const;
  std::string_view name_role(std::size_t probe_index) const;
  void tell(const std::string& phase, bool event);
  void count(Outcome outcome) { ++result_.outcomes[outcome]; }
  /// Keeps the first trouble for the report.
  void blame(Outcome outcome, const std::string& detail);

  RunContext& context_;
  const graph::Workload& workload_;
  Subject subject_;
  ProbePlan probes_;
  std::vector<ShapeCount> shapes_;           ///< what is known of how often shapes are used
  std::vector<std::string> probe_digests_;   ///< of probes_.search
  std::list<Contender> contenders_;          ///< those worth keeping; addresses stay
  Contender* default_ = nullptr;             ///< measured, verified, serves everything when any does
  std::string best_label_;
  TunedWorkload result_;
  std::unique_ptr<CostModel> model_;
  struct Lesson {
    std::vector<float> features;
    double time_ns = 0;
  };
  std::vector<Lesson> lessons_;              ///< of the search at hand
  std::map<std::string, double> time_by_image_;  ///< of the search at hand: equal code is measured once
  Summary best_at_probe_;
  double best_random_ns_ = 0, best_evolution_ns_ = 0;
};

}  // namespace loopwright::tuner
