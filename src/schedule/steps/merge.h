// merge: two loops of one extent, behind each other → one.
//
//   merge i j
//     for i in 0..n { y[i] = f(i) }; for j in 0..n { acc[] += y[j] }   →   for j in 0..n { let v = f(j): y[j] = v; acc[] += v }
//
// The second loop keeps its name and may stand inside allocations behind the first, whose scope then begins in front;
// what lies between moves before or behind the merged loop. Where both bodies are single statements under the same
// conditions, what the first stores and the second loads is computed once. Legality: equal extents and kinds; what the
// second does in an iteration touches nothing that the first writes in another, and the other way round; nothing in
// between ties the two apart. Rejections: illegal_fuse (says which), not_nested (a loop of more than one iteration,
// a condition or Let around one of them alone), unknown_loop.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Merge {
  static constexpr std::string_view kVerb = "merge";
  std::string first, second;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.first);
    f.name(s.second);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Merge& step);

}  // namespace loopwright::schedule
