// reduce_across: a reduction loop is split into partial results that are combined afterwards.
//
//   reduce_across r ways 8 interleaved in registers -> r_w r_i r_c
//     for r in 0..n { acc[] += f(r) }   →
//     alloc acc_part[8]: for r_z in 0..8 { acc_part[r_z] = 0 }
//       for r_i in 0..ceil_div(n, 8) { for r_w in 0..8 { if r_i*8 + r_w < n { acc_part[r_w] += f(r_i*8 + r_w) } } }
//       for r_c in 0..8 { acc[] combine acc_part[r_c] }
//
// `blocked` gives way w the w-th block of ceil_div(n, ways) iterations, with the loop over the ways outside: for workers.
// It is the one step that regroups a floating-point reduction. Legality: the loop holds one update, through loops,
// conditions and Lets, at an index without the loop; loops inside it that do index the result hit each element once.
// Rejections: illegal_reduce_across (says which), bad_argument (ways outside 2..131072), unknown_loop; too_large or
// illegal_reduce_across where the partial results do not fit `registers`.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct ReduceAcross {
  static constexpr std::string_view kVerb = "reduce_across";
  std::string loop;
  std::int64_t ways = 1;
  bool interleaved = false;
  Place place = Place::registers;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("ways");
    f.number(s.ways);
    f.flag("blocked", "interleaved", s.interleaved);
    f.word("in");
    f.choice(place_words(), s.place);
  }
};

Result<Applied> apply(const ir::Kernel& k, const ReduceAcross& step);

}  // namespace loopwright::schedule
