#include "src/codegen/cuda/ring_plan.h"

#include <algorithm>
#include <set>

namespace loopwright::codegen {
namespace {


Error fail(std::string found, std::string works) {
  return Error{ErrorCode::compile_failed, "checking the barriers of a ring", std::move(found), "", std::move(works)};
}

/// A barrier in shared memory: a phase is over when nothing is awaited any more.
struct Barrier {
  std::int64_t arrivals = 1;  ///< of each phase
  std::int64_t missing = 1;   ///< arrivals of this phase
  std::int64_t bytes = 0;     ///< that still have to come; negative where some came first
  std::int64_t phase = 0;     ///< phases that are over

  void settle() {
    if (missing != 0 || bytes != 0) return;
    ++phase;
    missing = arrivals;
  }
  /// What a wait for a parity sees: it cannot tell phases two apart.
  bool is_over(std::int64_t parity) const { return (phase & 1) != parity; }
};

struct Slot {
  Barrier full, empty;
  std::int64_t filled_by = -1;        ///< iteration whose bytes are there in full
  std::int64_t bytes_of_round = 0;
  std::set<std::int64_t> readers;     ///< consumers that read it now
};

struct Copy {
  std::int64_t iteration, bytes;
};

class Simulation {
 public:
  Simulation(const RingPlan& plan, std::int64_t iterations, std::int64_t tiles)
      : plan_(plan), of_tile_(iterations), tiles_(tiles), slots_(static_cast<std::size_t>(plan.depth)), turns_(static_cast<std::size_t>(plan.turns)) {
    for (Slot& s : slots_) s.empty.arrivals = s.empty.missing = plan.empty_arrivals;
    for (const RingOp& op : plan.producer) slot_bytes_ += op.action == RingAction::copy ? op.bytes : 0;
    roles_.resize(static_cast<std::size_t>(plan.consumers) + 1);
    for (std::size_t r = 1; plan.turns > 1 && r < roles_.size(); ++r) roles_[r].tile = static_cast<std::int64_t>(r) - 1;
    for (Barrier& b : turns_) b.arrivals = b.missing = kWarpsOfGroup;
  }

  Status run() {
    while (true) {
      bool moved = false;
      // Consumers first and the engine last: what they wait for is then as late as it can be.
      for (std::size_t r = roles_.size(); r-- > 0;)
        while (step(r)) moved = true;
      if (failure_) return *failure_;
      if (moved) continue;
      if (copies_.empty()) break;
      land();
    }
    return finish();
  }

 private:
  enum class Part : std::uint8_t { first, each, last };
  struct Role {
    std::int64_t tile = 0, iteration = 0;  ///< the iteration of the tile
    Part part = Part::first;
    std::size_t op = 0;
    std::int64_t turns_taken = 0;
    std::set<std::int64_t> reading;  ///< iterations of the ring whose slots the tensor cores may still read
  };

  Slot& slot(std::int64_t iteration) { return slots_[static_cast<std::size_t>(iteration % plan_.depth)]; }
  /// Counted over all tiles.
  std::int64_t iteration_of(const Role& role) const { return role.tile * of_tile_ + role.iteration; }
  const std::vector<RingOp>* program(std::size_t r, const Role& role) const {
    static const std::vector<RingOp> nothing;
    if (role.tile >= tiles_) return nullptr;
    if (r == 0) return role.part == Part::each ? &plan_.producer : &nothing;
    return role.part == Part::first ? &plan_.consumer_first : role.part == Part::each ? &plan_.consumer : &plan_.consumer_last;
  }

  /// Behind the last operation of a part.
  void go_on(std::size_t r, Role& role) const {
    role.op = 0;
    if (role.part == Part::each) ++role.iteration;
    if (role.part != Part::last) role.part = role.iteration < of_tile_ ? Part::each : Part::last;
    else role.part = Part::first, role.iteration = 0, role.tile += r > 0 ? plan_.turns : 1;
  }

  /// One operation of a role; false when it waits or is done.
  bool step(std::size_t r) {
    Role& role = roles_[r];
    const auto* ops = program(r, role);
    if (failure_ || ops == nullptr) return false;
    if (role.op == ops->size()) {
      go_on(r, role);
      return true;
    }
    if (!act((*ops)[role.op], role, static_cast<std::int64_t>(r))) return false;
    ++role.op;
    return true;
  }

  bool act(const RingOp& op, Role& role, std::int64_t who) {
    const std::int64_t iteration = iteration_of(role), round = iteration / plan_.depth;
    Slot& s = slot(iteration);
    switch (op.action) {
      case RingAction::wait_empty: return s.empty.is_over((round & 1) ^ 1);
      case RingAction::wait_full: return s.full.is_over(round & 1);
      case RingAction::expect:
        s.bytes_of_round = 0;
        s.full.bytes += op.bytes;
        --s.full.missing;
        s.full.settle();
        return true;
      case RingAction::copy:
        if (!s.readers.empty()) failure_ = fail("iteration " + std::to_string(iteration) + " fills a slot that is still read", "a wait for the slot's release");
        copies_.push_back({iteration, op.bytes});
        return true;
      case RingAction::multiply:
        if (s.filled_by != iteration) failure_ = fail("iteration " + std::to_string(iteration) + " reads a slot that is not full", "a wait for all bytes of its copies");
        role.reading.insert(iteration);
        s.readers.insert(who);
        return true;
      case RingAction::settle:
        while (!role.reading.empty() && *role.reading.begin() <= iteration - op.back - (role.part == Part::last ? 1 : 0)) {
          slot(*role.reading.begin()).readers.erase(who);
          role.reading.erase(role.reading.begin());
        }
        return true;
      case RingAction::release: release(op, role); return true;
      case RingAction::take_turn:
        // The first consumer's first turn needs nobody to pass it on.
        if (!turns_[static_cast<std::size_t>(who - 1)].is_over((role.turns_taken & 1) ^ (who == 1 ? 1 : 0))) return false;
        ++role.turns_taken;
        return true;
      case RingAction::pass_turn: {
        Barrier& next = turns_[static_cast<std::size_t>(who % plan_.turns)];
        next.missing -= kWarpsOfGroup;
        if (next.missing < 0) failure_ = fail("a turn is passed on twice", "once for each tile");
        next.settle();
        return true;
      }
    }
    return true;
  }

  void release(const RingOp& op, const Role& role) {
    const std::int64_t of_tile = role.iteration - op.back, which = iteration_of(role) - op.back;
    if (of_tile < 0 || of_tile >= of_tile_) return;
    if (role.reading.contains(which)) failure_ = fail("iteration " + std::to_string(which) + "'s slot is released while it is read", "a release behind the wait for the tensor cores");
    Barrier& empty = slot(which).empty;
    empty.missing -= plan_.warps;
    if (empty.missing < 0)
      failure_ =
          fail("more arrivals than a slot has consumers", std::to_string(plan_.empty_arrivals) + " arrivals");
    empty.settle();
  }

  /// The oldest copy is there.
  void land() {
    const Copy c = copies_.front();
    copies_.erase(copies_.begin());
    Slot& s = slot(c.iteration);
    s.bytes_of_round += c.bytes;
    if (s.bytes_of_round == slot_bytes_) s.filled_by = c.iteration;
    s.full.bytes -= c.bytes;
    s.full.settle();
  }

  Status finish() const {
    for (std::size_t r = 0; r < roles_.size(); ++r)
      if (program(r, roles_[r]) != nullptr)
        return fail((r == 0 ? std::string("the producer") : "consumer " + std::to_string(r - 1)) + " waits for ever in iteration " + std::to_string(iteration_of(roles_[r])),
                    "a release of every slot by every consumer, and as many bytes as are expected");
    for (const Slot& s : slots_)
      if (s.full.missing != s.full.arrivals || s.full.bytes != 0 || s.empty.missing != s.empty.arrivals)
        return fail("a barrier is left in the middle of a phase", "as many arrivals and bytes as are expected");
    return Unit{};
  }

  const RingPlan& plan_;
  std::int64_t of_tile_, tiles_, slot_bytes_ = 0;
  std::vector<Slot> slots_;
  std::vector<Barrier> turns_;
  std::vector<Role> roles_;    ///< the producer, then the consumers
  std::vector<Copy> copies_;   ///< under way
  std::optional<Error> failure_;
};

}  // namespace

RingPlan plan_ring(std::int64_t depth, std::int64_t consumers, const std::vector<std::int64_t>& copy_bytes, std::int64_t turns, Pace pace) {
  RingPlan out{depth, consumers, (turns > 1 ? 1 : consumers) * kWarpsOfGroup, {}, turns, {}, {}, {}};
  std::int64_t bytes = 0;
  for (const std::int64_t b : copy_bytes) bytes += b;
  out.producer = {{RingAction::wait_empty, 0, 0}, {RingAction::expect, bytes, 0}};
  for (const std::int64_t b : copy_bytes) out.producer.push_back({RingAction::copy, b, 0});
  if (pace == Pace::settled) out.consumer = {{RingAction::wait_full, 0, 0}, {RingAction::multiply, 0, 0}, {RingAction::settle, 0, 0}, {RingAction::release, 0, 0}};
  // The slot before is released when this one's products are under way, so that the tensor cores never run dry.
  else out.consumer = {{RingAction::wait_full, 0, 0}, {RingAction::multiply, 0, 0}, {RingAction::settle, 0, 1}, {RingAction::release, 0, 1}};
  if (pace == Pace::overlapped) out.consumer_last = {{RingAction::settle, 0, 0}, {RingAction::release, 0, 1}};
  if (turns > 1) {
    out.consumer_first = {{RingAction::take_turn, 0, 0}};
    // The next consumer's products queue up behind these.
    out.consumer_last.insert(out.consumer_last.begin(), {RingAction::pass_turn, 0, 0});
  }
  return out;
}

RingPlan plan_row_ring(std::int64_t depth, std::int64_t warps, const std::vector<std::int64_t>& copy_bytes) {
  RingPlan out = plan_ring(depth, warps, copy_bytes, 1, Pace::settled);
  out.warps = 1;
  out.empty_arrivals = warps;
  return out;
}

Status simulate_ring(const RingPlan& plan, std::int64_t iterations, std::int64_t tiles) {
  return Simulation(plan, iterations, tiles).run();
}

}  // namespace loopwright::codegen
