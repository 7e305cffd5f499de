// parallel: the iterations of a loop are shared out among the CPU's workers.
//
//   parallel i
//     for i in 0..n { S(i) }   →   for i in 0..n parallel { S(i) }
//
// Legality: the loop is outermost (only allocations and sequences around it), no iteration touches what another writes,
// and memory that it uses from outside is global. Rejections: illegal_bind (names the accesses, the loop around, or the
// buffer), bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Parallel {
  static constexpr std::string_view kVerb = "parallel";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

/// bind: the iterations of a loop are carried out by an axis of a GPU.
///
///   bind i_o to grid_x
///     for i_o in 0..n { S(i_o) }   →   for i_o in 0..n grid_x { S(i_o) }
///
/// `grid_*`: the loop is outermost but for other grid loops, with the rules of `parallel`. `thread_*`, `cluster_x`: inside
/// at most one loop of each axis; a constant extent; no iteration touches what another writes. `across`: its body is one
/// update by values that the loop indexes, at an element that it does not, perhaps behind a store that keeps what that element
/// was; constant extent. `last_block`: outermost, right behind a nest of grid loops. Rejections: illegal_bind, bad_argument.
struct Bind {
  static constexpr std::string_view kVerb = "bind";
  std::string loop;
  Axis axis = Axis::grid_x;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("to");
    f.choice(axis_words(), s.axis);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Parallel& step);
Result<Applied> apply(const ir::Kernel& k, const Bind& step);

}  // namespace loopwright::schedule
