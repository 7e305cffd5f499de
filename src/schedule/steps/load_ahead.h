// load_ahead: copies staged at a loop read their source one iteration ahead, into registers.
//
//   load_ahead k
//     for k in 0..n { alloc a[16, 128] shared: for t { a[t] = f(x[k, t]) }; .. a .. }   →
//     alloc a_next[..] registers: for t { a_next[t] = x[0, t] }
//       for k in 0..n { alloc a[16, 128] shared: for t { a[t] = f(a_next[t]) }
//                       if k + 1 < n { for t { a_next[t] = x[k + 1, t] } }; .. a .. }
//
// So the loads are under way while the body computes. What a copy does with a value that it has loaded, it does when it
// stores it. Its loops must be split and bound already: they say which thread holds what. Legality: the body begins with
// copies that stage made in shared memory, loops of constant extents around one store each; nothing in the loop writes what
// they read. Rejections: illegal_stage (says which), unknown_loop, bad_argument (not serial).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct LoadAhead {
  static constexpr std::string_view kVerb = "load_ahead";
  std::string loop;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
  }
};

Result<Applied> apply(const ir::Kernel& k, const LoadAhead& step);

}  // namespace loopwright::schedule
