#include "loopwright/schedule.h"

#include <functional>
#include <set>

#include "src/ir/rewrite.h"
#include "src/schedule/questions.h"
#include "src/schedule/trace.h"

namespace loopwright {

struct Schedule::State {
  ir::Kernel kernel;
  Target target;
  std::vector<schedule::TracedStep> steps;
  std::optional<Error> error;
};

namespace {

/// Gives loops that share a hint names of their own, so that a name means one loop.
ir::Kernel name_loops(ir::Kernel k) {
  std::set<std::string> used;
  for (const ir::Param& p : k.params) used.insert(p.buffer->name);
  for (const ir::SymbolParam& s : k.symbols) used.insert(s.var.hint);
  ir::walk(
      k.body,
      [&](const ir::Stmt& s) {
        if (const auto* a = ir::as<ir::Alloc>(s)) used.insert(a->buffer->name);
      },
      [](const ir::Expr&) {});
  const std::function<ir::Stmt(const ir::Stmt&)> visit = [&](const ir::Stmt& s) -> ir::Stmt {
    const auto* l = ir::as<ir::Loop>(s);
    const auto* let = ir::as<ir::Let>(s);
    if (l || let) {
      const ir::Var& v = l ? l->var : let->var;
      std::string name = v.hint;
      for (int n = 2; !used.insert(name).second; ++n) name = v.hint + "_" + std::to_string(n);
      if (name != v.hint) {
        const ir::Var fresh = ir::fresh_var(name);
        const DType dtype = l ? DType::i64 : let->value->dtype;
        const ir::Stmt body = visit(ir::substitute(l ? l->body : let->body, {{v, ir::var(fresh, dtype)}}));
        return l ? ir::loop(fresh, l->extent, body, l->kind) : ir::let(fresh, let->value, body);
      }
    }
    return ir::map_children(s, [](const ir::Expr& e) { return e; }, visit);
  };
  k.body = visit(k.body);
  k.level = ir::Level::scheduled;
  return k;
}

std::vector<LoopId> as_loops(const std::vector<std::string>& names) {
  std::vector<LoopId> out;
  for (const std::string& n : names) out.push_back({n});
  return out;
}

}  // namespace

Schedule::Schedule(ir::Kernel kernel, Target target) : state_(std::make_unique<State>()) {
  state_->kernel = name_loops(std::move(kernel));
  state_->target = std::move(target);
}
Schedule::~Schedule() = default;
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule&&) noexcept = default;

// Applies a step unless an earlier one was rejected; gives the names of what it made.
std::vector<std::string> Schedule::take(const void* erased) {
  if (!ok()) return {};
  const auto& step = *static_cast<const schedule::Step*>(erased);
  auto applied = schedule::apply_step(state_->kernel, step);
  if (!applied.ok()) {
    state_->error = Error(applied.error()).with_context("step " + std::to_string(state_->steps.size() + 1));
    return {};
  }
  state_->kernel = std::move(applied->kernel);
  state_->steps.push_back({step, applied->made});
  return applied->made;
}

const Target& Schedule::target() const { return state_->target; }
Accuracy Schedule::accuracy() const { return state_->kernel.accuracy; }

std::vector<NestInfo> Schedule::nests() const {
  return ok() ? schedule::describe_nests(state_->kernel) : std::vector<NestInfo>{};
}
std::vector<LoopId> Schedule::loops(const std::string& buffer) const {
  return ok() ? schedule::describe_loops(state_->kernel, buffer) : std::vector<LoopId>{};
}
BufferShape Schedule::buffer(const std::string& name) const {
  return ok() ? schedule::describe_buffer(state_->kernel, name) : BufferShape{};
}
std::int64_t Schedule::max_extent(const LoopId& loop) const {
  return ok() ? schedule::max_extent(state_->kernel, loop.name) : 0;
}
std::optional<std::int64_t> Schedule::constant_extent(const LoopId& loop) const {
  return ok() ? schedule::constant_extent(state_->kernel, loop.name) : std::nullopt;
}
std::vector<LoopId> Schedule::children(const LoopId& loop) const {
  return ok() ? schedule::describe_children(state_->kernel, loop.name) : std::vector<LoopId>{};
}

namespace {

std::vector<std::string> names_of(const std::vector<LoopId>& loops) {
  std::vector<std::string> out;
  for (const LoopId& l : loops) out.push_back(l.name);
  return out;
}

}  // namespace

std::vector<LoopId> Schedule::split(const LoopId& loop, const std::vector<std::int64_t>& factors, Tail tail) {
  const schedule::Step step = schedule::Split{loop.name, factors, tail};
  return as_loops(take(&step));
}

LoopId Schedule::fuse(const LoopId& outer, const LoopId& inner) {
  const schedule::Step step = schedule::Fuse{outer.name, inner.name};
  const auto made = take(&step);
  return made.empty() ? LoopId{} : LoopId{made.front()};
}

void Schedule::merge(const LoopId& first, const LoopId& second) {
  const schedule::Step step = schedule::Merge{first.name, second.name};
  take(&step);
}

void Schedule::reorder(const std::vector<LoopId>& loops) {
  const schedule::Step step = schedule::Reorder{names_of(loops)};
  take(&step);
}

void Schedule::parallel(const LoopId& loop) {
  const schedule::Step step = schedule::Parallel{loop.name};
  take(&step);
}

void Schedule::bind(const LoopId& loop, Axis axis) {
  const schedule::Step step = schedule::Bind{loop.name, axis};
  take(&step);
}

void Schedule::unroll(const LoopId& loop) {
  const schedule::Step step = schedule::Unroll{loop.name};
  take(&step);
}

void Schedule::vectorize(const LoopId& loop) {
  const schedule::Step step = schedule::Vectorize{loop.name};
  take(&step);
}

void Schedule::inline_buffer(const std::string& buffer) {
  const schedule::Step step = schedule::InlineBuffer{buffer};
  take(&step);
}

void Schedule::compute_at(const std::string& buffer, const LoopId& loop, Place place) {
  const schedule::Step step = schedule::ComputeAt{buffer, loop.name, place};
  take(&step);
}

std::vector<LoopId> Schedule::fuse_epilogue(const std::string& consumer, const LoopId& loop, Place place, bool bringing) {
  const schedule::Step step = schedule::FuseEpilogue{consumer, loop.name, place, bringing};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::hold(const std::string& buffer, const LoopId& loop, Place place) {
  const schedule::Step step = schedule::Hold{buffer, loop.name, place};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::stage(const std::string& buffer, const LoopId& loop, Place place,
                                    const std::vector<int>& order, const std::vector<std::int64_t>& tiles,
                                    bool converted) {
  const schedule::Step step = schedule::Stage{buffer, loop.name, place, order, tiles, converted};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::reduce_across(const LoopId& loop, std::int64_t ways, bool interleaved,
                                            Place place) {
  const schedule::Step step = schedule::ReduceAcross{loop.name, ways, interleaved, place};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::scan_across(const LoopId& loop, std::int64_t ways, std::int64_t chunk, std::int64_t blocks) {
  const schedule::Step step = schedule::ScanAcross{loop.name, ways, chunk, blocks};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::value_first(const LoopId& combination, std::int64_t group) {
  const std::vector<std::int64_t> groups = group == 1 ? std::vector<std::int64_t>{} : std::vector{group};
  const schedule::Step step = schedule::ValueFirst{combination.name, groups};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::split_targets(const LoopId& loop, std::int64_t part) {
  const schedule::Step step = schedule::SplitTargets{loop.name, part};
  return as_loops(take(&step));
}

std::vector<LoopId> Schedule::align_rows(const LoopId& loop, const std::string& group, std::int64_t tile, bool ahead) {
  const schedule::Step step = schedule::AlignRows{loop.name, group, tile, ahead};
  return as_loops(take(&step));
}

void Schedule::tensorize(const LoopId& row, const LoopId& column, const LoopId& reduction) {
  const schedule::Step step = schedule::Tensorize{names_of({row, column, reduction})};
  take(&step);
}

std::vector<LoopId> Schedule::separate(const LoopId& loop, bool rechecked) {
  const schedule::Step step = schedule::Separate{loop.name, rechecked};
  return as_loops(take(&step));
}

void Schedule::round_factors(const LoopId& loop) {
  const schedule::Step step = schedule::RoundFactors{loop.name};
  take(&step);
}

void Schedule::ring(const LoopId& loop, std::int64_t depth, bool async) {
  const schedule::Step step = schedule::Ring{loop.name, depth, async};
  take(&step);
}

void Schedule::bulk(const LoopId& loop) {
  const schedule::Step step = schedule::Bulk{loop.name};
  take(&step);
}

void Schedule::load_ahead(const LoopId& loop) {
  const schedule::Step step = schedule::LoadAhead{loop.name};
  take(&step);
}

std::vector<LoopId> Schedule::persist(const LoopId& loop, std::int64_t blocks, std::int64_t turns) {
  const schedule::Step step = schedule::Persist{loop.name, blocks, turns};
  return as_loops(take(&step));
}

void Schedule::cache(const std::string& buffer, Caching policy) {
  const schedule::Step step = schedule::Cache{buffer, static_cast<ir::CachePolicy>(policy)};
  take(&step);
}

void Schedule::stream(const std::string& buffer) {
  const schedule::Step step = schedule::Stream{buffer};
  take(&step);
}

void Schedule::assume_multiple(const std::string& symbol, std::int64_t factor) {
  const schedule::Step step = schedule::AssumeMultiple{symbol, factor};
  take(&step);
}

void Schedule::assume_alignment(std::int64_t bytes) {
  const schedule::Step step = schedule::AssumeAlignment{bytes};
  take(&step);
}

bool Schedule::ok() const { return !state_->error.has_value(); }

const Error& Schedule::error() const {
  LW_BUG_IF(ok(), "error() of a schedule without rejection");
  return *state_->error;
}

void Schedule::reject(const std::string& reason) {
  if (ok()) state_->error = Error{ErrorCode::requirement_failed, "a schedule", reason, {}, {}};
}

bool Schedule::attempt(const std::function<void(Schedule&)>& steps) {
  if (!ok()) return false;
  const State before = *state_;
  steps(*this);
  if (ok()) return true;
  *state_ = before;
  return false;
}

Schedule Schedule::copy() const {
  Schedule out(state_->kernel, state_->target);
  out.state_->error = state_->error;
  return out;
}

const ir::Kernel& Schedule::kernel() const { return state_->kernel; }
std::string Schedule::trace() const { return schedule::print_trace(state_->steps); }

}  // namespace loopwright
