// Runtime: layers of databases, a device, and the misses of the plans it made.
#include "loopwright/runtime.h"

#include <map>
#include <mutex>

#include "src/runtime/lookup.h"
#include "src/runtime/plan.h"

namespace loopwright {

struct Runtime::State {
  /// What one workload's kernels missed, in whichever plan.
  struct Missed {
    std::shared_ptr<runtime::MissTable> table;
    std::vector<std::string> symbol_names;
    std::string workload_text;
  };

  RuntimeOptions options;
  std::shared_ptr<const runtime::Device> device;
  std::vector<std::string> notes;
  std::mutex mutex;  ///< guards what follows: a database connection serves one thread at a time
  std::vector<runtime::Layer> layers;
  std::map<std::string, Missed> missed;

  ~State() {
    try {
      static_cast<void>(flush());
    } catch (...) {
      // Counts of misses are hints; losing them must not end the program.
    }
  }
  Result<Plan> plan(const std::string& name_or_digest);
  Status flush();
  std::vector<db::WantedRow> collect(
      std::vector<std::pair<runtime::MissTable*, std::vector<runtime::MissTable::Entry>>>& taken);
};

Result<Plan> Runtime::State::plan(const std::string& name_or_digest) {
  const std::lock_guard lock(mutex);
  runtime::PlanParts parts;
  LW_TRY(parts.spec, runtime::find_plan(layers, name_or_digest));
  parts.device = device;
  const runtime::Lookup lookup(layers, *device);
  std::string missing, notes_text;
  for (std::size_t k = 0; k < parts.spec.kernels.size(); ++k) {
    const PlanKernel& kernel = parts.spec.kernels[k];
    runtime::KernelVariants found = lookup.find_variants(kernel, parts.spec.symbols, options.on_miss);
    Missed& missed_here = missed[kernel.workload];
    if (missed_here.table == nullptr)
      missed_here = {std::make_shared<runtime::MissTable>(kernel.symbols.size()), kernel.symbol_names,
                     found.workload_text};
    if (found.variants.empty()) {
      missing += (missing.empty() ? "kernel " : ", ") + std::to_string(k) + " (" + kernel.family +
                 ", workload " + kernel.workload.substr(0, 12) + ")";
      for (const std::string& note : found.notes) notes_text += (notes_text.empty() ? "" : "\n") + note;
    }
    parts.variants.push_back(std::move(found.variants));
    parts.notes.push_back(std::move(found.notes));
    parts.misses.push_back(missed_here.symbol_names == kernel.symbol_names ? missed_here.table : nullptr);
  }
  if (!missing.empty())
    return Error{ErrorCode::no_variant, "make the plan " + parts.spec.name,
                 "nothing that runs here for " + missing, notes_text,
                 "tuning on this machine, OnMiss::fallback, or OnMiss::jit with loopwright_compiler"};
  return runtime::PlanAccess::make(std::move(parts));
}

std::vector<db::WantedRow> Runtime::State::collect(
    std::vector<std::pair<runtime::MissTable*, std::vector<runtime::MissTable::Entry>>>& taken) {
  std::vector<db::WantedRow> rows;
  for (auto& [workload, entry] : missed) {
    auto entries = entry.table->take();
    for (const runtime::MissTable::Entry& item : entries) {
      db::WantedRow row;
      row.workload = workload;
      row.workload_text = entry.workload_text;
      for (std::size_t i = 0; i < item.symbols.size(); ++i)
        row.values[entry.symbol_names[i]] = item.symbols[i];
      row.count = item.count;
      rows.push_back(std::move(row));
    }
    taken.emplace_back(entry.table.get(), std::move(entries));
  }
  return rows;
}

Status Runtime::State::flush() {
  const std::lock_guard lock(mutex);
  std::vector<std::pair<runtime::MissTable*, std::vector<runtime::MissTable::Entry>>> taken;
  const std::vector<db::WantedRow> rows = collect(taken);
  if (rows.empty()) return Unit{};
  Status written = Error{ErrorCode::db_read_only, "write wanted sizes", "no database is open", "",
                         "a database that can be written"};
  for (const runtime::Layer& layer : layers) {
    if (!layer.query) continue;
    written = db::note_wanted(layer.path, rows);
    // Somebody writes there right now: the next flush gets another chance, and counts stay in one file.
    if (written.ok() || written.error().code == ErrorCode::db_locked ||
        written.error().code == ErrorCode::busy)
      break;
  }
  if (!written.ok())
    for (auto& [table, entries] : taken) table->put_back(entries);
  return written;
}

Result<Runtime> Runtime::open(RuntimeOptions options) {
  constexpr int kMostWorkers = 4096;
  if (options.workers < 0 || options.workers > kMostWorkers)
    return Error{ErrorCode::wrong_arguments, "open a runtime", std::to_string(options.workers) + " workers",
                 "", "0 for the machine's, or 1 to " + std::to_string(kMostWorkers)};
  Runtime runtime;
  runtime.state_ = std::make_shared<State>();
  State& state = *runtime.state_;
  LW_TRY(state.device, runtime::open_device(options.device, options.workers));
  state.layers = runtime::open_layers(options.databases);
  for (const runtime::Layer& layer : state.layers) state.notes.push_back(layer.note);
  state.options = std::move(options);
  return runtime;
}

Result<Plan> Runtime::plan(const std::string& name_or_digest) const { return state_->plan(name_or_digest); }
const Target& Runtime::target() const { return state_->device->target(); }
const std::vector<std::string>& Runtime::notes() const { return state_->notes; }
Status Runtime::flush_wanted() const { return state_->flush(); }

Status Runtime::reload() const {
  std::vector<runtime::Layer> layers = runtime::open_layers(state_->options.databases);
  const std::lock_guard lock(state_->mutex);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].query || !state_->layers[i].query) continue;
    return Error{ErrorCode::db_other, "reload the databases", layers[i].note, layers[i].path,
                 "what was open before goes on serving; reload again when the file is there"};
  }
  state_->layers = std::move(layers);
  return Unit{};
}

Result<std::string> Runtime::explain(const std::string& name_or_digest,
                                     std::span<const std::int64_t> symbols) const {
  LW_TRY(const Plan plan, state_->plan(name_or_digest));
  LW_TRY(std::string out, plan.explain(symbols));
  const std::lock_guard lock(state_->mutex);
  const runtime::Lookup lookup(state_->layers, *state_->device);
  for (std::size_t k = 0; k < plan.spec().kernels.size(); ++k) {
    const PlanKernel& kernel = plan.spec().kernels[k];
    Bindings values;
    for (std::size_t i = 0; i < kernel.symbols.size(); ++i)
      values[kernel.symbol_names[i]] = symbols[static_cast<std::size_t>(kernel.symbols[i])];
    out += "databases on kernel " + std::to_string(k) + ":\n" + lookup.explain(kernel, values);
  }
  return out;
}

}  // namespace loopwright
