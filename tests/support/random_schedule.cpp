#include "tests/support/random_schedule.h"

#include <algorithm>

#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"

namespace loopwright::test {

namespace {

using Generator = std::mt19937_64;

/// What random steps choose from.
struct Parts {
  std::vector<ir::Stmt> loops;
  std::vector<std::string> allocated, buffers;
  bool regroups_badly =
      false;  ///< a sum in half precision: regrouping it changes more than any tolerance allows
};

Parts parts_of(const ir::Kernel& k) {
  Parts p;
  for (const ir::Param& x : k.params) p.buffers.push_back(x.buffer->name);
  ir::walk(
      k.body,
      [&](const ir::Stmt& s) {
        if (ir::as<ir::Loop>(s)) p.loops.push_back(s);
        if (const auto* u = ir::as<ir::Update>(s)) {
          const DType t = u->buffers.front()->dtype;
          p.regroups_badly =
              p.regroups_badly || ((t == DType::f16 || t == DType::bf16) && !ir::is_exact(u->monoid, t));
        }
        if (const auto* x = ir::as<ir::Store>(s); x && (x->buffer->dtype == DType::f16 || x->buffer->dtype == DType::bf16)) {
          const auto read = ir::buffers_of(s).read;
          p.regroups_badly = p.regroups_badly || std::find(read.begin(), read.end(), x->buffer) != read.end();
        }
        if (const auto* a = ir::as<ir::Alloc>(s)) {
          p.allocated.push_back(a->buffer->name);
          p.buffers.push_back(a->buffer->name);
        }
      },
      [](const ir::Expr&) {});
  return p;
}

template <class T>
const T& one_of(const std::vector<T>& from, Generator& random) {
  return from[random() % from.size()];
}

std::string a_loop(const Parts& p, Generator& random) {
  if (p.loops.empty() || random() % 64 == 0) return "no_such_loop";
  return ir::as<ir::Loop>(one_of(p.loops, random))->var.hint;
}

std::string a_buffer(const Parts& p, Generator& random, bool allocated) {
  if (allocated && !p.allocated.empty() && random() % 8 != 0) return one_of(p.allocated, random);
  return random() % 64 == 0 ? "no_such_buffer" : one_of(p.buffers, random);
}

Place a_place(Generator& random) {
  return one_of(
      std::vector<Place>{Place::global, Place::shared, Place::shared, Place::registers, Place::registers},
      random);
}

/// The loops of the perfect nest that begins at a random loop.
std::vector<std::string> a_nest(const Parts& p, Generator& random) {
  std::vector<std::string> out;
  if (p.loops.empty()) return out;
  ir::Stmt at = one_of(p.loops, random);
  while (true) {
    if (const auto* l = ir::as<ir::Loop>(at)) {
      out.push_back(l->var.hint);
      at = l->body;
    } else if (const auto* i = ir::as<ir::If>(at)) {
      at = i->then;
    } else {
      return out;
    }
  }
}

schedule::Step a_split(const Parts& p, Generator& random) {
  schedule::Split s{a_loop(p, random), {}, random() % 8 == 0 ? Tail::exact : Tail::guard};
  for (std::size_t n = 1 + random() % 4 / 3; n > 0; --n)
    s.factors.push_back(one_of(std::vector<std::int64_t>{1, 2, 3, 4, 4, 8}, random));
  return s;
}

schedule::Step a_reorder(const Parts& p, Generator& random) {
  std::vector<std::string> loops = a_nest(p, random);
  std::shuffle(loops.begin(), loops.end(), random);
  if (loops.size() > 2 && random() % 2) loops.pop_back();
  return schedule::Reorder{loops};
}

schedule::Step a_fuse(const Parts& p, Generator& random) {
  const std::vector<std::string> nest = a_nest(p, random);
  if (nest.size() < 2) return schedule::Fuse{a_loop(p, random), a_loop(p, random)};
  return schedule::Fuse{nest[0], nest[1]};
}

schedule::Step a_stage(const ir::Kernel& k, const Parts& p, Generator& random) {
  schedule::Stage s{a_buffer(p, random, random() % 2),
                    random() % 10 == 0 ? "" : a_loop(p, random),
                    a_place(random),
                    {},
                    {}};
  std::size_t rank = 0;
  for (const ir::Param& x : k.params)
    if (x.buffer->name == s.buffer) rank = x.buffer->shape.size();
  ir::walk(
      k.body,
      [&](const ir::Stmt& x) {
        const auto* a = ir::as<ir::Alloc>(x);
        if (a && a->buffer->name == s.buffer) rank = a->buffer->shape.size();
      },
      [](const ir::Expr&) {});
  if (random() % 2)
    for (std::size_t d = 0; d < rank; ++d) s.order.push_back(static_cast<int>(d));
  std::shuffle(s.order.begin(), s.order.end(), random);
  if (random() % 2)
    for (std::size_t d = 0; d < rank; ++d)
      s.tiles.push_back(one_of(std::vector<std::int64_t>{1, 1, 2, 4}, random));
  s.converted = random() % 4 == 0;
  return s;
}

}  // namespace

schedule::Step random_step(const ir::Kernel& k, Generator& random) {
  const Parts p = parts_of(k);
  switch (random() % 29) {
    case 0:
    case 1:
    case 2:
    case 3: return a_split(p, random);
    case 4:
    case 5:
    case 6: return a_reorder(p, random);
    case 7:
    case 8: return a_fuse(p, random);
    case 9:
      return schedule::Parallel{
          p.loops.empty() || random() % 2 ? a_loop(p, random) : ir::as<ir::Loop>(p.loops.front())->var.hint};
    case 10: return schedule::Unroll{a_loop(p, random)};
    case 11: return schedule::Vectorize{a_loop(p, random)};
    case 12:
    case 13: return schedule::InlineBuffer{a_buffer(p, random, true)};
    case 14:
    case 15: return schedule::ComputeAt{a_buffer(p, random, true), a_loop(p, random), a_place(random)};
    case 16:
    case 17: return schedule::FuseEpilogue{a_buffer(p, random, false), a_loop(p, random), a_place(random)};
    case 18:
    case 19: return schedule::Hold{a_buffer(p, random, false), a_loop(p, random), a_place(random)};
    case 20:
    case 21: return a_stage(k, p, random);
    case 22:
      if (p.regroups_badly) return schedule::Vectorize{a_loop(p, random)};
      return schedule::ReduceAcross{a_loop(p, random), one_of(std::vector<std::int64_t>{2, 3, 4, 8}, random),
                                    random() % 2 == 0, a_place(random)};
    case 23:
    case 24: return schedule::Merge{a_loop(p, random), a_loop(p, random)};
    case 25: return schedule::Stream{a_buffer(p, random, false)};
    case 26:
      if (p.regroups_badly) return schedule::Vectorize{a_loop(p, random)};
      return schedule::ScanAcross{a_loop(p, random), one_of(std::vector<std::int64_t>{1, 2, 4, 6}, random),
                                  one_of(std::vector<std::int64_t>{1, 2, 3, 4}, random), std::int64_t{1} + static_cast<std::int64_t>(random() % 2)};
    case 27: return schedule::SplitTargets{a_loop(p, random), one_of(std::vector<std::int64_t>{1, 2, 3, 8}, random)};
    default: return schedule::AssumeAlignment{std::int64_t{1} << random() % 7};
  }
}

namespace {

std::string check_rejection(const Error& e) {
  const int number = static_cast<int>(e.code);
  const bool known =
      (number >= 100 && number < 300) && e.code != ErrorCode::malformed_ir && e.code != ErrorCode::bad_trace;
  if (known && !e.asked.empty() && !e.found.empty() && !e.works.empty()) return {};
  return "a rejection lacks a part: " + e.message();
}

std::string check_kernel(const ir::Kernel& k) {
  if (auto status = ir::verify(k); !status.ok())
    return "the kernel does not verify: " + status.error().message();
  const std::string printed = ir::print(k);
  const auto again = ir::parse_kernel(printed);
  if (!again.ok()) return "the kernel's text does not parse: " + again.error().message() + "\n" + printed;
  return ir::print(*again) == printed ? "" : "the kernel's text reads back as another:\n" + printed;
}

}  // namespace

RandomSchedule random_schedule(const ir::Kernel& naive, std::uint64_t seed, int attempts) {
  Generator random(seed);
  RandomSchedule out;
  out.kernel = naive;
  out.kernel.level = ir::Level::scheduled;
  for (int i = 0; i < attempts && out.wrong.empty(); ++i) {
    const schedule::Step step = random_step(out.kernel, random);
    auto applied = schedule::apply_step(out.kernel, step);
    if (!applied.ok()) {
      ++out.rejected;
      out.wrong = check_rejection(applied.error());
      continue;
    }
    out.steps.push_back({step, applied->made});
    out.kernel = std::move(applied->kernel);
    out.wrong = check_kernel(out.kernel);
  }
  return out;
}

RandomSchedule apply_what_applies(const ir::Kernel& naive, const std::vector<schedule::TracedStep>& steps) {
  RandomSchedule out;
  out.kernel = naive;
  out.kernel.level = ir::Level::scheduled;
  for (const schedule::TracedStep& s : steps) {
    auto applied = schedule::apply_step(out.kernel, s.step);
    if (!applied.ok()) continue;
    out.steps.push_back({s.step, applied->made});
    out.kernel = std::move(applied->kernel);
    if (out.wrong.empty()) out.wrong = check_kernel(out.kernel);
  }
  return out;
}

}  // namespace loopwright::test
