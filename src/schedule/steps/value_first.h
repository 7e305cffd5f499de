// value_first: the best value of a reduction to (value, place) is found first, then its place.
//
//   value_first r_c -> r_w_p r_i_p r_c_p
//     for r_i { for r_w { argmax (v_part, p_part)[r_w] by (x[..], r) } }
//     for r_c { argmax (v, p)[i] by (v_part[r_c], p_part[r_c]) }   →
//     for r_i { for r_w { max v_part[r_w] by x[..] } }
//     for r_c { max v[i] by v_part[r_c] }
//     for r_w_p { if v_part[r_w_p] == v[i] or is_nan(v_part[r_w_p]) { for r_i_p {
//       let value = x[..]: min p_part[r_w_p] by select(value == v[i] or is_nan(value), r, highest) } } }
//     for r_c_p { min p[i] by p_part[r_c_p] }
//
// With `group 8`, eight neighbouring parts are looked for together, under one condition (any of them reaches the value), in a
// loop r_w_g innermost.
// Partial results (reduce_across) say who may hold the place: only where a part reaches the best value is it looked for.
// Ties go to the smallest place and NaN wins, as before. Legality: `r_c` combines partial results of one dimension that
// the nest in front computes; the state is neutral before it; the value is the same bit for bit when
// it is computed again (no sums, products or divisions of floats); of a float value nobody sees more than comparisons in
// argmin and argmax, since max orders the zeros. Rejections: bad_argument (says which), unknown_loop.
#pragma once

#include "src/schedule/step_text.h"

namespace loopwright::schedule {

struct ValueFirst {
  static constexpr std::string_view kVerb = "value_first";
  std::string loop;
  std::vector<std::int64_t> group;  ///< one number, or none for 1

  template <class Self, class F>
  static void fields(Self& s, F& f) {
    f.name(s.loop);
    f.optional_numbers("group", s.group);
  }
};

Result<Applied> apply(const ir::Kernel& k, const ValueFirst& step);

}  // namespace loopwright::schedule
