#include "src/schedule/engine_copy.h"

#include <algorithm>

#include "src/ir/text.h"

namespace loopwright::schedule {
namespace {

constexpr std::int64_t kUnitBytes = 16;     ///< what the engine can address
constexpr std::int64_t kBlockBytes = 128;   ///< most of a row that one box takes
constexpr std::int64_t kLeastRowBytes = 32; ///< of a tile that goes out; shorter rows have no pattern against bank conflicts
constexpr std::int64_t kMostRows = 256;
constexpr std::size_t kMostDims = 5;

/// What the engine addresses are units.
std::string find_address_obstacle(const ir::Kernel& k, const ir::BulkCopy& c, const ir::Facts& facts) {
  if (k.guard.alignment_bytes % kUnitBytes != 0) return "buffers begin at any address";
  for (std::size_t d = 0; d < c.param->shape.size(); ++d) {
    const ir::Expr stride = ir::simplify(ir::stride_of(*c.param, d), facts);
    const bool last = d + 1 == c.param->shape.size();
    if (last ? ir::as_int(stride) != 1 : facts.divisor(stride) * size_bytes(c.param->dtype) % kUnitBytes != 0)
      return "dimension " + std::to_string(d) + " of `" + c.param->name + "` has the stride " +
             ir::print(stride) + (last ? ", not 1" : ", of no multiple of 16 bytes");
  }
  return {};
}

}  // namespace

std::string find_copy_obstacle(const ir::Kernel& k, const ir::BulkCopy& c, const ir::Facts& facts) {
  const std::int64_t bytes = size_bytes(c.param->dtype), row_bytes = c.columns * bytes;
  const std::string param = "`" + c.param->name + "`";
  if (bytes != 2 && c.param->dtype != DType::f32) return param + " has elements of the dtype " + std::string(name(c.param->dtype));
  if (c.out && !is_param(k, c.param)) return param + " is no parameter";
  if (c.out && c.planes > 1) return "it copies " + std::to_string(c.planes) + " planes of rows";
  if (c.param->shape.size() > kMostDims) return param + " has more than five dimensions";
  const bool narrow = c.out && (row_bytes == kLeastRowBytes || row_bytes == 2 * kLeastRowBytes);
  if (row_bytes % kBlockBytes != 0 && !narrow) return "rows of " + std::to_string(row_bytes) + " bytes, no multiple of 128";
  if (c.rows % 8 != 0) return std::to_string(c.rows) + " rows, no multiple of 8";
  if (c.rows > kMostRows) return std::to_string(c.rows) + " rows, more than 256";
  // The engine begins at any column, threads that write a part of the rows do not.
  if (c.rows_end && k.guard.alignment_bytes % kUnitBytes == 0 && facts.divisor(c.at.back()) * bytes % kUnitBytes != 0)
    return "its rows end inside the tile and begin at the column " + ir::print(c.at.back()) + ", of no multiple of 16 bytes";
  return find_address_obstacle(k, c, facts);
}

std::string find_row_copy_obstacle(const ir::Kernel& k, const ir::BulkCopy& c, const ir::Facts& facts) {
  const std::int64_t bytes = size_bytes(c.param->dtype);
  const std::string param = "`" + c.param->name + "`";
  if (c.out || !is_param(k, c.param)) return param + " is no parameter";
  const std::vector<ir::Buffer> written = ir::buffers_of(k.body).written;
  if (std::find(written.begin(), written.end(), c.param) != written.end())
    return "the kernel writes " + param;
  if (c.all_rows() != 1) return "it copies " + std::to_string(c.all_rows()) + " rows at a time, not one";
  if (c.bounded || c.rounded) return "it computes what it copies";
  if (c.columns * bytes % kUnitBytes != 0)
    return "rows of " + std::to_string(c.columns * bytes) + " bytes, no multiple of 16";
  if (facts.divisor(c.at.back()) * bytes % kUnitBytes != 0) return "rows begin inside 16 bytes";
  return find_address_obstacle(k, c, facts);
}

}  // namespace loopwright::schedule
