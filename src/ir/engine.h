// What loops of the kinds `across`, `bulk` and `mma` say, taken apart: a combination of what threads hold, a copy that an
// engine carries out, and a product of tiles on tensor cores. Steps ask whether a nest has this form, the emitter for what is in it. Both work on indices of any rank.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/ir/simplify.h"

namespace loopwright::ir {

/// Elements from one index of dimension `d` of any buffer to the next.
Expr stride_of(const BufferInfo& buffer, std::size_t d);

/// A tile in shared memory and a box of global memory, rows of the tile one behind the other from `at` on. In:
/// for i in 0..rows { for j in 0..columns { tile[.. + i*columns + j] = param[.., at + i, .., at + j] } }, and zero where that
/// is beyond the parameter; around it perhaps a loop over planes of so many rows. What comes in may be rounded to tf32. Out:
/// param[..] = tile[..], and nothing where that is beyond, nor in rows from `rows_end` on.
struct BulkCopy {
  Buffer tile, param;  ///< `param` is a parameter, or workspace
  bool out = false;
  bool rounded = false;  ///< to tf32
  bool bounded = false;  ///< conditions keep it inside the parameter
  std::int64_t rows = 1, columns = 1, planes = 1;
  std::optional<std::size_t> row_dim;    ///< of the parameter; none where rows is 1
  std::optional<std::size_t> plane_dim;  ///< in front of the rows'; none where planes is 1
  Expr rows_end;                         ///< a row of the parameter; null where the parameter's end is the only one
  std::int64_t all_rows() const { return rows * planes; }
  std::vector<Expr> at;                ///< first element, in every dimension of the parameter
  Expr tile_at;                        ///< position of the first element in the tile's buffer
};
/// Whether the slots of a ring are read by threads, and not by tensor cores.
bool feeds_threads(const Loop& ring);
/// Whether threads themselves copy to the slots.
bool is_fed_by_threads(const Loop& ring);
/// Workspaces that copy engines read: they keep their shape at every level, as parameters do.
std::set<Buffer> find_boxed(const Stmt& body);
/// bad_argument with `found` and `works` when the nest is no such copy.
Result<BulkCopy> match_bulk_copy(const Loop& nest, const Facts& facts);

/// for i in 0..m { for j in 0..n { for r in 0..k { acc[acc_at + i*row_step + j*column_step] += a[..] * b[..] } } }, one of
/// the steps being 1.
struct MatrixProduct {
  struct Operand {
    Buffer buffer;
    Expr at;                    ///< position of the element with the loops at zero
    std::int64_t along = 0;     ///< from one row (column) of the product to the next
    std::int64_t reduction = 0; ///< from one summand to the next
  };
  Buffer acc;
  Expr acc_at;
  std::int64_t row_step = 0, column_step = 0;
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;
};
/// bad_argument when the nest is no such product.
Result<MatrixProduct> match_matrix_product(const Loop& nest, const Facts& facts);

/// for c { state[..] combine part[.., c, ..] }, and of a scan, in front of it, `before[.., c, ..] = state[..]`.
struct Combination {
  const Update* update = nullptr;
  const Store* before = nullptr;  ///< null where nobody asks for what came before
};
/// Empty when the loop does anything else, or the state moves with the loop.
std::optional<Combination> match_combination(const Loop& loop);

}  // namespace loopwright::ir
