#include "tuner/tuner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "db/canonical.h"
#include "db/query.h"
#include "db/record.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/support/digest.h"
#include "tuner/interruption.h"
#include "tuner/metered_device.h"
#include "tuner/range_probes.h"
#include "tuner/rebuild.h"
#include "tuner/run_state.h"
#include "tuner/workload_run.h"

namespace loopwright::tuner {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kWantedProbes = 2;

/// A workload's own names of symbols, by what the graph calls them.
using SymbolNames = std::vector<std::pair<std::string, std::string>>;

/// What a run tunes: the kernels of a graph, or one workload that programs asked for, which is no plan of its own.
struct Work {
  std::vector<graph::Workload> workloads;
  std::vector<SymbolNames> names;  ///< for each workload
  std::string plan_json;           ///< empty: no plan
};

Result<Work> list_work(const RunState& state) {
  if (auto wanted = graph::parse_workload(state.graph_text); wanted.ok()) return Work{{*std::move(wanted)}, {{}}, {}};
  LW_TRY(const Graph graph, Graph::parse(state.graph_text, state.graph_name));
  LW_TRY(driver::Planned planned, driver::plan_graph(graph, state.options.target.kind));
  Work work{std::move(planned.workloads), {}, planned.spec.text()};
  // Nothing on a CPU makes use of more than strict, and strict winners serve everybody.
  if (state.options.target.kind == TargetKind::cpu)
    for (graph::Workload& w : work.workloads) w = graph::make_strict(w);
  for (const PlanKernel& kernel : planned.spec.kernels) {
    work.names.emplace_back();
    for (std::size_t i = 0; i < kernel.symbols.size(); ++i)
      work.names.back().push_back({planned.spec.symbols[static_cast<std::size_t>(kernel.symbols[i])].name, kernel.symbol_names[i]});
  }
  return work;
}

Bindings rename(const Bindings& values, const SymbolNames& names) {
  Bindings own;
  for (const auto& [theirs, ours] : names) {
    if (const auto at = values.find(theirs); at != values.end()) own[ours] = at->second;
  }
  return own;
}

/// What a workload is asked for: shapes to search at, and how often each shape is used.
struct Demand {
  std::vector<Bindings> probes;
  std::vector<ShapeCount> shapes;
};

/// Without its compiler every candidate for a GPU would fail, and stay in the database as one that does.
Status check_compiler(const Target& target) {
  if (target.kind != TargetKind::cuda) return Unit{};
  LW_TRY([[maybe_unused]] const codegen::Nvrtc* nvrtc, codegen::Nvrtc::shared());
  return Unit{};
}

/// A run from its first or its next process to its end.
class Session {
 public:
  Session(const Workbench& bench, db::Recorder& recorder, RunState state, const TuneObserver& observer,
          Interruption& interruption)
      : bench_(leave_for_subjects(bench, interruption)), recorder_(recorder), state_(std::move(state)), observer_(observer),
        interruption_(interruption) {}

  Result<TuneReport> run(const std::string& existing_run) {
    LW_CHECK(check_compiler(state_.options.target));
    {
      const Interruption::Away away(&interruption_);
      LW_TRY(device_, bench_.make_device(state_.options));
    }
    metered_ = std::make_unique<MeteredDevice>(*device_, interruption_);
    LW_TRY(const Work work, list_work(state_));
    LW_TRY(JournalKeys keys, add_keys(existing_run));
    journal_ = std::make_unique<Journal>(recorder_, keys);
    if (!existing_run.empty()) LW_CHECK(journal_->continue_sequence());
    if (!work.plan_json.empty())
      LW_CHECK(recorder_.add_plan({.name = state_.graph_name, .graph_digest = sha256_hex(state_.graph_text),
                                   .graph_text = state_.graph_text, .plan_json = work.plan_json,
                                   .created_ns = db::read_clock_ns()}));
    pool_ = std::make_unique<BuildPool>(state_.options.build_threads, &interruption_);
    list_items(work);
    fill_context();
    const Status status = tune_items();
    // Whatever ended the run: what it found stays, and it can go on.
    const Status flushed = journal_->flush();
    const bool cancelled = context_.is_cancelled();
    LW_CHECK(recorder_.set_run_state(keys.run, !status.ok() ? db::RunState::failed
                                               : cancelled  ? db::RunState::interrupted
                                                            : db::RunState::finished));
    LW_CHECK(status);
    LW_CHECK(flushed);
    return make_report(cancelled);
  }

  /// For the thread that ends the process: commits, and tells what was done. A write that fails is lost as by a kill.
  TuneReport commit_interrupted() {
    if (journal_ == nullptr) return {.graph = state_.graph_name, .cancelled = true};
    if (context_.report) save_state();
    if (journal_->flush().ok()) recorder_.set_run_state(journal_->keys().run, db::RunState::interrupted).ok();
    return make_report(true);
  }

 private:
  double now_s() const { return state_.elapsed_s + std::chrono::duration<double>(Clock::now() - start_).count(); }

  Result<JournalKeys> add_keys(const std::string& existing_run) {
    JournalKeys keys;
    LW_TRY(const db::DeviceRow device, bench_.fingerprint(state_.options));
    const db::ToolchainRow toolchain = bench_.toolchain(state_.options);
    keys.generator = toolchain.generator;
    keys.device_hard = db::compute_hard_digest(device);
    LW_TRY(keys.device, recorder_.add_device(device));
    LW_TRY(keys.toolchain, recorder_.add_toolchain(toolchain));
    LW_TRY(keys.policy, recorder_.add_policy({.name = state_.options.device, .text = metered_->policy()}));
    keys.run = existing_run;
    if (existing_run.empty()) {
      LW_TRY(keys.run, recorder_.begin_run({.command = state_.options.command_line, .seed = state_.options.seed,
                                            .budget_s = state_.options.budget_s, .search_state = state_.text(),
                                            .generator = keys.generator, .device = keys.device,
                                            .toolchain = keys.toolchain, .policy = keys.policy}));
    } else {
      LW_CHECK(recorder_.set_run_state(existing_run, db::RunState::running));
    }
    return keys;
  }

  void fill_context() {
    context_.options = &state_.options;
    context_.device = metered_.get();
    context_.pool = pool_.get();
    context_.journal = journal_.get();
    context_.interruption = &interruption_;
    context_.now_s = [this] { return now_s(); };
    context_.ended_searches = state_.ended_searches;
    context_.state_changed = [this] { save_state(); };
    context_.report = [this](const TunedWorkload& w, const std::string& phase, const std::string& label, bool event) {
      tell(w, phase, label, event);
    };
    save_state();
  }

  void save_state() {
    RunState now = state_;
    now.elapsed_s = now_s();
    now.ended_searches = context_.ended_searches;
    saved_ = Clock::now();
    journal_->set_search_state(now.text());
  }

  void tell(const TunedWorkload& w, const std::string& phase, const std::string& label, bool event) {
    const auto now = Clock::now();
    if (now - saved_ > std::chrono::milliseconds(400)) save_state();
    if (!observer_ || (!event && now - told_ < std::chrono::milliseconds(100))) return;
    told_ = now;
    TuneProgress p;
    p.workload = w.family + " " + w.digest.substr(0, 12);
    p.workload_index = workload_index_;
    p.workload_count = workload_count_;
    p.trials = w.trials;
    p.outcomes = w.outcomes;
    p.default_ns = w.default_ns;
    p.best_ns = w.best_ns;
    p.best_label = label;
    p.elapsed_s = now_s();
    p.left_s = std::max(0.0, state_.options.budget_s - p.elapsed_s);
    p.phase = phase;
    observer_(p);
  }

  /// What is served of this device, toolchain and policy.
  Result<std::vector<db::BestEntry>> list_own(const graph::Workload& workload) {
    const JournalKeys& keys = journal_->keys();
    LW_TRY(auto rows, recorder_.read().list_best({.workload = workload.digest, .device = keys.device, .policy = keys.policy}));
    std::erase_if(rows, [&](const db::BestEntry& e) { return e.best.toolchain != keys.toolchain || !is_served(e.best.state); });
    return rows;
  }

  /// What an earlier run stored, here or on a machine just like this one, when it was not cut short and can be served.
  Result<std::optional<TunedWorkload>> find_complete(const graph::Workload& workload) {
    LW_TRY(auto rows, list_own(workload));
    LW_TRY(const auto wanting, list_wanting(recorder_.read(), rows, {}, state_.options.target.text()));
    if (!wanting.empty()) {
      tell({.digest = workload.digest, .family = workload.family}, "rebuild", {}, true);
      LW_CHECK(rebuild_workload({.bench = &bench_, .options = &state_.options, .device = metered_.get(),
                                 .journal = journal_.get(), .interruption = &interruption_},
                                {.text = workload.text, .family = workload.family, .accuracy = std::string(name(workload.graph.accuracy()))}, wanting));
      LW_TRY(rows, list_own(workload));
    }
    TunedWorkload tuned{.digest = workload.digest, .family = workload.family};
    for (const db::BestEntry& entry : rows) {
      const db::BestRow& best = entry.best;
      if (!best.verified || best.state == db::BestState::stale) return std::optional<TunedWorkload>{};
      if (!best.complete) continue;
      tuned.complete = true;
      if (tuned.ranges++ == 0) tuned.default_ns = best.default_median_ns, tuned.best_ns = best.median_ns, tuned.compared = true;
      tuned.worst_loss = std::max(tuned.worst_loss, best.worst_loss);
      tuned.mean_loss = std::max(tuned.mean_loss, best.mean_loss);
    }
    if (!tuned.complete) return std::optional<TunedWorkload>{};
    return std::optional<TunedWorkload>{tuned};
  }

  /// Shapes that the user named or counted, and those that programs asked for in vain.
  Result<Demand> list_demand(const graph::Workload& workload, const std::vector<SymbolNames>& uses) {
    Demand demand;
    std::map<Bindings, double> counts;
    const std::vector<Symbol>& symbols = workload.graph.symbols();
    const auto is_whole = [&](const Bindings& values) {
      return !symbols.empty() && std::all_of(symbols.begin(), symbols.end(), [&](const Symbol& s) {
        const auto at = values.find(s.name);
        return at != values.end() && at->second >= s.lo && at->second <= s.hi;
      });
    };
    for (const SymbolNames& names : uses) {
      for (const Bindings& probe : state_.options.probes) {
        if (const Bindings own = rename(probe, names); is_whole(own)) demand.probes.push_back(own);
      }
      for (const ShapeCount& shape : state_.options.shapes) {
        if (const Bindings own = rename(shape.values, names); is_whole(own)) counts[own] += shape.count;
      }
    }
    LW_TRY(const auto wanted, recorder_.read().list_wanted());
    std::size_t taken = 0;
    for (const db::WantedRow& row : wanted) {
      if (row.workload != workload.digest || !is_whole(row.values)) continue;
      counts[row.values] += static_cast<double>(row.count);
      if (taken++ < kWantedProbes) demand.probes.push_back(row.values);
    }
    for (const auto& [values, count] : counts) demand.shapes.push_back({values, count});
    if (demand.probes.empty()) demand.probes = choose_typical(demand.shapes);
    return demand;
  }

  Status forget_wanted(const std::string& workload) {
    LW_TRY(const auto wanted, recorder_.read().list_wanted());
    for (const db::WantedRow& row : wanted) {
      if (row.workload == workload) LW_CHECK(recorder_.forget_wanted(row.workload, row.values));
    }
    return Unit{};
  }

  struct Item {
    const graph::Workload* workload = nullptr;
    std::vector<SymbolNames> uses;       ///< one for each kernel of the graph that is this workload
    std::unique_ptr<WorkloadRun> run;    ///< null: complete before
    TunedWorkload tuned;
  };

  void list_items(const Work& work) {
    for (std::size_t i = 0; i < work.workloads.size(); ++i) {
      const graph::Workload& w = work.workloads[i];
      const auto same = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.workload->digest == w.digest; });
      if (same != items_.end()) {
        same->uses.push_back(work.names[i]);
        continue;
      }
      items_.push_back({.workload = &w, .uses = {work.names[i]}, .tuned = {.digest = w.digest, .family = w.family}});
    }
    workload_count_ = static_cast<int>(items_.size());
  }

  TuneReport make_report(bool cancelled) const {
    TuneReport report{.run = journal_->keys().run, .graph = state_.graph_name, .cancelled = cancelled};
    for (const Item& item : items_) report.workloads.push_back(item.run != nullptr ? item.run->result() : item.tuned);
    for (const NextGraph& n : state_.next) report.left.push_back(n.name);
    report.elapsed_s = now_s();
    report.build_s = pool_ != nullptr ? pool_->busy_s() : 0;
    report.measure_s = metered_->busy_s();
    return report;
  }

  Status tune_items() {
    std::size_t open = items_.size();
    // Every workload gets its default first, so that a run that is stopped early leaves something to serve everywhere.
    for (std::size_t i = 0; i < items_.size() && !context_.is_cancelled(); ++i) {
      Item& item = items_[i];
      workload_index_ = static_cast<int>(i);
      LW_TRY(const auto complete, find_complete(*item.workload));
      if (complete) {
        item.tuned = *complete;
        LW_CHECK(forget_wanted(item.workload->digest));
        continue;
      }
      auto subject = bench_.make_subject(*item.workload, state_.options);
      if (!subject.ok()) {
        // One workload that cannot be built does not take the others with it.
        tell(item.tuned, "default", "cannot be built: " + subject.error().message(), true);
        ++item.tuned.outcomes[Outcome::compile_error];
        item.tuned.why_not = "compile_error: " + subject.error().message();
        continue;
      }
      LW_TRY(Demand demand, list_demand(*item.workload, item.uses));
      const ProbePlan probes = plan_probes(subject->symbols, demand.probes, subject->work);
      subject->setup.verify_probes = probes.verify;
      subject->setup.final_probes = probes.verify_finals;
      item.run = std::make_unique<WorkloadRun>(context_, *item.workload, std::move(*subject), probes, std::move(demand.shapes));
      LW_CHECK(item.run->open());
      open = i;
      LW_CHECK(item.run->try_defaults());
    }
    for (std::size_t i = 0; i < items_.size() && !context_.is_cancelled(); ++i) {
      if (items_[i].run == nullptr || !items_[i].run->has_default()) continue;
      workload_index_ = static_cast<int>(i);
      const double deadline_s = now_s() + share_of(i) * std::max(0.0, state_.options.budget_s - now_s());
      if (open != i) LW_CHECK(items_[i].run->open());
      open = i;
      LW_CHECK(items_[i].run->search(deadline_s));
      if (items_[i].run->result().complete) LW_CHECK(forget_wanted(items_[i].workload->digest));
    }
    return Unit{};
  }

  /// Of the time left: half of it evenly, half by how much of the graph's time the workload is.
  double share_of(std::size_t at) const {
    double all = 0, count = 0;
    const auto weigh = [](const Item& i) { return i.run->default_ns() * static_cast<double>(i.uses.size()); };
    for (std::size_t i = at; i < items_.size(); ++i) {
      if (items_[i].run == nullptr || !items_[i].run->has_default()) continue;
      all += weigh(items_[i]);
      ++count;
    }
    return 0.5 / count + 0.5 * (all > 0 ? weigh(items_[at]) / all : 1 / count);
  }

  const Workbench bench_;
  db::Recorder& recorder_;
  RunState state_;
  const TuneObserver& observer_;
  Interruption& interruption_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point told_{}, saved_{};
  std::unique_ptr<Device> device_;
  std::unique_ptr<MeteredDevice> metered_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<BuildPool> pool_;
  RunContext context_;
  std::vector<Item> items_;
  int workload_index_ = 0, workload_count_ = 0;
};

/// Tunes the graph of `state` and those that follow it, a run each.
Result<std::vector<TuneReport>> run_chain(const Workbench& bench, db::Recorder& recorder, RunState state,
                                          std::string existing_run, const TuneObserver& observer,
                                          Interruption& interruption) {
  std::vector<TuneReport> reports;
  for (;;) {
    Session session(bench, recorder, state, observer, interruption);
    interruption.set_commit([&] {
      std::vector<TuneReport> all = reports;
      all.push_back(session.commit_interrupted());
      return all;
    });
    Result<TuneReport> report = session.run(existing_run);
    interruption.set_commit({});
    if (!report.ok()) return report.error();
    if (interruption.is_cancelled()) report->cancelled = report->cancelled || !state.next.empty();
    reports.push_back(*std::move(report));
    if (reports.back().cancelled || state.next.empty()) return reports;
    reports.back().left.clear();
    state = state.follow(reports.back().elapsed_s);
    existing_run.clear();
  }
}

/// A run that `resume` has something to do for: it did not end, or it is the newest and others were to follow it.
Result<db::RunRow> find_resumable(const db::Recorder& recorder) {
  LW_TRY(const auto runs, recorder.read().list_runs());
  for (const db::RunRow& r : runs) {
    if (r.state != db::RunState::finished) return r;
    const Result<RunState> state = RunState::parse(r.search_state);
    if (&r == &runs.front() && state.ok() && !state->next.empty()) return r;
  }
  return Error{.code = ErrorCode::not_found, .asked = "resume the newest stopped run of " + recorder.path(),
               .found = runs.empty() ? "there is no run" : "every run is finished",
               .works = "loopwright tune begins one"};
}

/// A run each, sharing the budget.
Result<std::vector<TuneReport>> run_each(const Workbench& bench, std::vector<NextGraph> graphs, const TuneOptions& options,
                                         const TuneObserver& observer, const TuneStop& stop) {
  if (graphs.empty()) return std::vector<TuneReport>{};
  Interruption interruption(stop);
  RunState state;
  state.options = options;
  state.next = std::move(graphs);
  state = state.follow(0);
  state.whole_budget_s = options.budget_s;
  state.take_share();
  LW_TRY(db::Recorder recorder, db::Recorder::open(options.database, {.command = options.command_line}));
  return run_chain(bench, recorder, std::move(state), {}, observer, interruption);
}

/// The workloads of a database that programs asked for in vain, what was asked for most first. Text of another format
/// version is left out, and stays wanted.
Result<std::vector<NextGraph>> list_wanted_workloads(const std::string& database) {
  LW_TRY(const db::Query query, db::Query::open(database));
  LW_TRY(const auto rows, query.list_wanted());
  std::map<std::string, std::int64_t> counts;
  for (const db::WantedRow& row : rows) counts[row.workload] += row.count;
  std::vector<std::pair<std::int64_t, NextGraph>> wanted;
  for (const db::WantedRow& row : rows) {
    const auto count = counts.extract(row.workload);
    if (count.empty()) continue;
    const auto workload = graph::parse_workload(row.workload_text);
    if (workload.ok()) wanted.push_back({count.mapped(), {workload->family + " " + row.workload.substr(0, 12), row.workload_text, {}, {}}});
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<NextGraph> out;
  for (auto& [count, graph] : wanted) out.push_back(std::move(graph));
  return out;
}

}  // namespace

Result<std::vector<TuneReport>> tune_all_with(const Workbench& bench, const std::vector<TuneJob>& jobs,
                                              const TuneOptions& options, const TuneObserver& observer,
                                              const TuneStop& stop) {
  std::vector<NextGraph> graphs;
  for (const TuneJob& job : jobs) {
    LW_CHECK(graph::check_computes(job.graph));
    graphs.push_back({job.graph.name(), job.graph.text(), job.probes, job.shapes});
  }
  return run_each(bench, std::move(graphs), options, observer, stop);
}

Result<std::vector<TuneReport>> tune_wanted_with(const Workbench& bench, const TuneOptions& options,
                                                 const TuneObserver& observer, const TuneStop& stop) {
  LW_TRY(auto wanted, list_wanted_workloads(options.database));
  return run_each(bench, std::move(wanted), options, observer, stop);
}

Result<TuneReport> tune_with(const Workbench& bench, const Graph& graph, const TuneOptions& options,
                             const TuneObserver& observer, const std::atomic<bool>* cancel) {
  LW_TRY(auto reports, tune_all_with(bench, {{graph, options.probes, options.shapes}}, options, observer, {.cancel = cancel}));
  return std::move(reports.front());
}

Result<std::vector<TuneReport>> resume_with(const Workbench& bench, const std::string& database, const std::string& run,
                                            const TuneObserver& observer, const TuneStop& stop) {
  Interruption interruption(stop);
  LW_TRY(db::Recorder recorder, db::Recorder::open(database, {.create = false, .command = "resume " + run}));
  LW_TRY(const db::RunRow row, run.empty() ? find_resumable(recorder) : recorder.read().find_run(run));
  LW_TRY(RunState state, RunState::parse(row.search_state));
  state.options.database = database;
  LW_TRY(const auto provenance, recorder.read().list_provenance());
  // Another file's run does not say which program is started here.
  if (std::any_of(provenance.begin(), provenance.end(), [&](const db::ProvenanceRow& p) { return p.table == "run" && p.row == row.digest; }))
    state.options.worker_path.clear();
  const bool is_done = row.state == db::RunState::finished && !state.next.empty();
  if (is_done) state = state.follow(state.elapsed_s);
  return run_chain(bench, recorder, std::move(state), is_done ? "" : row.digest, observer, interruption);
}

}  // namespace loopwright::tuner

namespace loopwright {

Result<TuneReport> tune(const Graph& graph, const TuneOptions& options, const TuneObserver& observer,
                        const std::atomic<bool>* cancel) {
  return tuner::tune_with(tuner::make_workbench(), graph, options, observer, cancel);
}

Result<std::vector<TuneReport>> tune_all(const std::vector<TuneJob>& jobs, const TuneOptions& options,
                                         const TuneObserver& observer, const TuneStop& stop) {
  return tuner::tune_all_with(tuner::make_workbench(), jobs, options, observer, stop);
}

Result<std::vector<TuneReport>> tune_wanted(const TuneOptions& options, const TuneObserver& observer, const TuneStop& stop) {
  return tuner::tune_wanted_with(tuner::make_workbench(), options, observer, stop);
}

Result<std::vector<TuneReport>> resume(const std::string& database, const std::string& run,
                                       const TuneObserver& observer, const TuneStop& stop) {
  return tuner::resume_with(tuner::make_workbench(), database, run, observer, stop);
}

}  // namespace loopwright
