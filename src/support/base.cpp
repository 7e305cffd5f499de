#include "loopwright/base.h"

#include <algorithm>
#include <array>

namespace loopwright {
namespace {

struct DTypeRow {
  std::string_view name;
  int bytes;
};
constexpr std::array<DTypeRow, kDTypeCount> kDTypes = {{
    {"bool", 1},
    {"i8", 1},
    {"u8", 1},
    {"i16", 2},
    {"i32", 4},
    {"i64", 8},
    {"f16", 2},
    {"bf16", 2},
    {"f32", 4},
    {"f64", 8},
}};

struct CodeRow {
  ErrorCode code;
  std::string_view name;
};
#define LW_ROW(code) \
  CodeRow { ErrorCode::code, #code }
constexpr CodeRow kCodes[] = {
    LW_ROW(ok),
    LW_ROW(syntax),
    LW_ROW(unknown_name),
    LW_ROW(duplicate_name),
    LW_ROW(unknown_op),
    LW_ROW(wrong_arity),
    LW_ROW(dtype_mismatch),
    LW_ROW(shape_mismatch),
    LW_ROW(bad_attribute),
    LW_ROW(size_overflow),
    LW_ROW(bad_symbol),
    LW_ROW(bad_strides),
    LW_ROW(malformed_ir),
    LW_ROW(unknown_loop),
    LW_ROW(unknown_buffer),
    LW_ROW(bad_argument),
    LW_ROW(not_divisible),
    LW_ROW(not_nested),
    LW_ROW(illegal_reorder),
    LW_ROW(illegal_fuse),
    LW_ROW(illegal_bind),
    LW_ROW(illegal_unroll),
    LW_ROW(illegal_vectorize),
    LW_ROW(illegal_stage),
    LW_ROW(illegal_inline),
    LW_ROW(illegal_compute_at),
    LW_ROW(illegal_reduce_across),
    LW_ROW(illegal_epilogue),
    LW_ROW(illegal_hold),
    LW_ROW(requirement_failed),
    LW_ROW(too_large),
    LW_ROW(bad_trace),
    LW_ROW(trace_version),
    LW_ROW(no_template),
    LW_ROW(illegal_ring),
    LW_ROW(illegal_tensorize),
    LW_ROW(compile_failed),
    LW_ROW(unsupported_target),
    LW_ROW(resource_exceeded),
    LW_ROW(wrong_arguments),
    LW_ROW(out_of_range),
    LW_ROW(misaligned),
    LW_ROW(aliasing),
    LW_ROW(no_variant),
    LW_ROW(launch_failed),
    LW_ROW(out_of_memory),
    LW_ROW(bad_artifact),
    LW_ROW(timeout),
    LW_ROW(crash),
    LW_ROW(wrong_result),
    LW_ROW(out_of_bounds),
    LW_ROW(nondeterministic),
    LW_ROW(cancelled),
    LW_ROW(busy),
    LW_ROW(db_locked),
    LW_ROW(db_read_only),
    LW_ROW(db_corrupt),
    LW_ROW(db_newer),
    LW_ROW(db_foreign),
    LW_ROW(db_full),
    LW_ROW(db_other),
    LW_ROW(io),
    LW_ROW(not_found),
    LW_ROW(unsupported),
    LW_ROW(bug),
};
#undef LW_ROW

const DTypeRow& row_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  LW_BUG_IF(index >= kDTypes.size(), "dtype number " + std::to_string(index));
  return kDTypes[index];
}

void append_indented(std::string& out, std::string_view prefix, std::string_view text) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out += "\n  ";
    if (begin == 0) out += prefix;
    out += text.substr(begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace

int size_bytes(DType dtype) { return row_of(dtype).bytes; }
std::string_view name(Accuracy accuracy) { return accuracy == Accuracy::tf32 ? "tf32" : "strict"; }
std::optional<Accuracy> parse_accuracy(std::string_view text) {
  for (const Accuracy a : {Accuracy::strict, Accuracy::tf32})
    if (name(a) == text) return a;
  return std::nullopt;
}

std::string_view name(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_float(DType dtype) { return dtype >= DType::f16 && dtype <= DType::f64; }
bool is_integer(DType dtype) { return dtype >= DType::i8 && dtype <= DType::i64; }

DType accumulator(DType dtype) {
  if (dtype == DType::f16 || dtype == DType::bf16) return DType::f32;
  return is_float(dtype) ? dtype : DType::i64;
}

std::string_view name(ErrorCode code) {
  for (const CodeRow& row : kCodes)
    if (row.code == code) return row.name;
  throw_bug(__FILE__, __LINE__, "code in table", "error code " + std::to_string(static_cast<int>(code)));
}

std::optional<ErrorCode> parse_error_code(std::string_view text) {
  for (const CodeRow& row : kCodes)
    if (row.name == text) return row.code;
  return std::nullopt;
}

namespace {
constexpr std::array<std::string_view, kOutcomeCount> kOutcomes = {
    "ok",    "rejected",     "compile_error", "launch_error",     "timeout",
    "crash", "wrong_result", "out_of_bounds", "nondeterministic", "resource"};
}  // namespace

std::string_view name(Match match) {
  constexpr std::array<std::string_view, 4> kNames = {"exact", "soft_mismatch", "nearest", "untuned"};
  return kNames.at(static_cast<std::size_t>(match));
}

std::string_view name(Outcome outcome) { return kOutcomes[static_cast<std::size_t>(outcome)]; }

std::optional<Outcome> parse_outcome(std::string_view text) {
  for (std::size_t i = 0; i < kOutcomes.size(); ++i)
    if (kOutcomes[i] == text) return static_cast<Outcome>(i);
  return std::nullopt;
}

std::string Error::message() const {
  std::string out(name(code));
  out += ": " + asked;
  if (!found.empty()) out += ": " + found;
  if (!where.empty()) append_indented(out, "", where);
  if (!works.empty()) append_indented(out, "works: ", works);
  return out;
}

Error Error::with_context(std::string context) && {
  where = where.empty() ? std::move(context) : std::move(context) + "\n" + where;
  return std::move(*this);
}

void throw_bug(const char* file, int line, const char* condition, const std::string& detail) {
  throw Bug(std::string(file) + ":" + std::to_string(line) + ": " + condition + ": " + detail);
}

}  // namespace loopwright
