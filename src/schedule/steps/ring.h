// ring: copies staged at a loop become slots of rings that the copy engine fills ahead of the tensor cores.
//
//   ring k depth 4
//     for k { alloc a[64, 64] shared: for .. { a[..] = x[..] }; .. mma reads a .. }   →
//     alloc a[4, 64, 64] shared: for k ring { for .. bulk { a[k mod 4, ..] = x[..] }; .. mma reads a[k mod 4, ..] .. }
//
// Who waits for whom (barriers, their phases, the bytes a slot expects), the roles of the warps and their registers follow
// when the text is written. Legality: the body is copies that stage made, of 16-bit or f32 parameters or workspace without a conversion (but round_factors'), then
// products that tensorize made and arithmetic on fragments; a copy takes rows of a multiple of 128 bytes, up to 256 of them; rows of the
// source begin at multiples of 16 bytes and so does every buffer (assume_alignment). Rejections: illegal_ring (says
// which), bad_argument (a depth outside 2..16), unknown_loop.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct Ring {
  static constexpr std::string_view kVerb = "ring";
  std::string loop;
  std::int64_t depth = 0;

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.word("depth");
    f.number(s.depth);
  }
};

Result<Applied> apply(const ir::Kernel& k, const Ring& step);

}  // namespace loopwright::schedule
