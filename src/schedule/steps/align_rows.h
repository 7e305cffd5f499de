// align_rows: tiles of rows begin where groups of rows begin.
//
//   align_rows t to g tile 64 -> t_e
//     for r { g[r] = the first e with offsets[e] > r, or n }
//     for t in 0..ceil_div(rows, 64) { for i in 0..64 { if t*64 + i < rows { S(t*64 + i, g[t*64 + i]) } } }   →
//     for t in 0..ceil_div(rows, 64) + n {
//       begin = passed = 0
//       for t_e in 0..n { end = max(begin, offsets[t_e], as far as that is a row)
//                         if passed <= t { group = t_e; first = begin - passed*64; last = end }
//                         passed += ceil_div(end - begin, 64); begin = end }
//       if passed <= t { group = n; first = begin - passed*64; last = rows }
//       first += t*64
//       if first < last { for i in 0..64 { if first + i < last { S(first + i, group) } } } }
//
// With `ahead` the search is a nest of its own in front, once for each tile of rows, which leaves tables for the loop:
//
//   align_rows t to g tile 64 ahead -> t_t t_e
//     for t_t in 0..ceil_div(rows, 64) + n { the same search: group[t_t], first[t_t], last[t_t] }
//     for t in 0..ceil_div(rows, 64) + n { first = first[t] + t*64; if first < last[t] { .. S(first + i, group[t]) } }
//
// So all rows of a tile are of one group, which is the same number for the whole tile: what is read there can be staged. Each
// group has tiles of its own, the last of which may be smaller; there are never more than one a group beside the full ones, and
// iterations that are left over do nothing. The loop may be bound to a grid already (its iterations go on touching nothing of
// each other's, which no index says any more), and may have been fused with loops inside it: the tile of rows is t floor_div m.
// Legality: groups are found by a nest as group_of makes it, so that each is an interval of rows; the loop goes through all tiles
// of as many rows, and in it every row is computed from itself alone: local buffers have a dimension for the rows, which a loop
// over the tile indexes, everything else is indexed by the row. Rejections: illegal_bind (says which), unknown_buffer,
// unknown_loop, bad_argument (a tile outside 1..65536).
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct AlignRows {
  static constexpr std::string_view kVerb = "align_rows";
  std::string loop, group;
  std::int64_t tile = 1;  ///< rows
  bool ahead = false;     ///< tiles are looked for in front

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("to");
    f.name(s.group);
    f.word("tile");
    f.number(s.tile);
    f.optional_word("ahead", s.ahead);
  }
};

Result<Applied> apply(const ir::Kernel& k, const AlignRows& step);

}  // namespace loopwright::schedule
