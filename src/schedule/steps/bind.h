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

Result<Applied> apply(const ir::Kernel& k, const Parallel& step);

}  // namespace loopwright::schedule
