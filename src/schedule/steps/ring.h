// ring: copies staged at a loop become slots of rings that the copy engine fills ahead of the tensor cores, or of threads.
//
//   ring k depth 4
//     for k { alloc a[64, 64] shared: for .. { a[..] = x[..] }; .. mma reads a .. }   →
//     alloc a[4, 64, 64] shared: for k ring { for .. bulk { a[k mod 4, ..] = x[..] }; .. mma reads a[k mod 4, ..] .. }
//
// Who waits for whom (barriers, their phases, the bytes a slot expects), the roles of the warps and their registers follow
// when the text is written. Legality: the body is copies that stage made, of 16-bit or f32 parameters or workspace without a conversion (but round_factors'), then
// products that tensorize made and arithmetic on fragments; a copy takes rows of a multiple of 128 bytes, up to 256 of them; rows of the
// source begin at multiples of 16 bytes and so does every buffer (assume_alignment).
//
// Rows that threads read: the body, behind numbers and conditions (persist makes them), is copies of one row each, then what
// threads do with them.
//
//   ring i_round depth 3
//     for i_round { let i: if i < n { alloc row[1, 64] shared: for .. { row[..] = x[i, ..] }; for j thread_x { .. row[0, j] .. } } }   →
//     alloc row[3, 1, 64] shared: for i_round ring { let i: if i < n { for .. bulk { row[i_round mod 3, ..] = x[i, ..] }; .. } }
//
// Thread 0 has the engine fill a slot for the iteration `depth` later once every warp has read it. A row is a multiple of 16 bytes
// that begins at one, of any dtype, of a parameter that the kernel does not write; capability 9.0, whole warps, no clusters.
//
// Copies that threads make themselves without waiting for them, of 4, 8 or 16 bytes each (capability 8.0):
//
//   ring k depth 3 async
//     for k { alloc a[16, 64] shared: for t thread_x { a[..] = x[..] }; .. a .. }   →
//     alloc a[3, 16, 64] shared: for k ring { for a_async in 0..1 async { for t thread_x { a[k mod 3, ..] = x[..] } }; .. a[k mod 3, ..] .. }
//
// The copies of an iteration begin depth - 1 iterations ahead; groups and barriers follow when the text is written. Their loops are split
// and bound already; they convert nothing, and the loop does not write what they read.
// Rejections: illegal_ring (says which), bad_argument (a depth outside 2..16), unknown_loop.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Ring {
  static constexpr std::string_view kVerb = "ring";
  std::string loop;
  std::int64_t depth = 0;
  bool async = false;  ///< the threads copy, without waiting

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("depth");
    f.number(s.depth);
    f.optional_word("async", s.async);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Ring& step);

}  // namespace loopwright::schedule
