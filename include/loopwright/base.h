// Data types, errors and Result: what every other public header stands on.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace loopwright {

/// Element type of a tensor. The numbers are stored in databases and artifacts: append only.
enum class DType : std::uint8_t {
  boolean = 0,  ///< one byte, 0 or 1; written `bool` in text
  i8 = 1,
  u8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  bf16 = 7,
  f32 = 8,
  f64 = 9,
};
inline constexpr int kDTypeCount = 10;

/// Size of one element in bytes.
int size_bytes(DType dtype);
/// `bool`, `i8`, ... `f64`.
std::string_view name(DType dtype);
/// The inverse of `name`; empty when there is no such type.
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType dtype);
/// Signed and unsigned integers, without bool.
bool is_integer(DType dtype);
/// The type in which sums and products of `dtype` are carried: f32 for f16 and bf16, i64 for integers and bool,
/// else itself.
DType accumulator(DType dtype);

/// What a computation may do with its numbers; databases store the words, and each class allows what those before it do.
enum class Accuracy : std::uint8_t {
  strict,  ///< nothing that is less accurate than arithmetic in the dtypes that the graph states
  tf32,  ///< factors of products of f32 tensors may be rounded to 10 bits behind the point (docs/accuracy.md)
};
/// `strict`, `tf32`.
std::string_view name(Accuracy accuracy);
/// The inverse of `name`; empty when there is no such class.
std::optional<Accuracy> parse_accuracy(std::string_view text);

/// Why something failed. Numbers are stored in databases: append only, never reuse. `name` gives the word used in text.
enum class ErrorCode : std::int32_t {
  ok = 0,
  // graph and text
  syntax = 100,
  unknown_name = 101,
  duplicate_name = 102,
  unknown_op = 103,
  wrong_arity = 104,
  dtype_mismatch = 105,
  shape_mismatch = 106,
  bad_attribute = 107,
  size_overflow = 108,
  bad_symbol = 109,
  bad_strides = 110,
  malformed_ir = 111,
  // schedule rejections
  unknown_loop = 200,
  unknown_buffer = 201,
  bad_argument = 202,
  not_divisible = 203,
  not_nested = 204,
  illegal_reorder = 205,
  illegal_fuse = 206,
  illegal_bind = 207,
  illegal_unroll = 208,
  illegal_vectorize = 209,
  illegal_stage = 210,
  illegal_inline = 211,
  illegal_compute_at = 212,
  illegal_reduce_across = 213,
  illegal_epilogue = 214,
  illegal_hold = 215,
  requirement_failed = 216,
  too_large = 217,
  bad_trace = 218,
  trace_version = 219,
  no_template = 220,
  illegal_ring = 221,
  illegal_tensorize = 222,
  // compile
  compile_failed = 300,
  unsupported_target = 301,
  resource_exceeded = 302,
  // run
  wrong_arguments = 400,
  out_of_range = 401,
  misaligned = 402,
  aliasing = 403,
  no_variant = 404,
  launch_failed = 405,
  out_of_memory = 406,
  bad_artifact = 407,
  // tuning
  timeout = 500,
  crash = 501,
  wrong_result = 502,
  out_of_bounds = 503,
  nondeterministic = 504,
  cancelled = 505,
  busy = 506,
  // database and files
  db_locked = 600,
  db_read_only = 601,
  db_corrupt = 602,
  db_newer = 603,
  db_foreign = 604,
  db_full = 605,
  db_other = 606,
  io = 607,
  not_found = 608,
  // other
  unsupported = 900,
  bug = 999,
};
std::string_view name(ErrorCode code);
std::optional<ErrorCode> parse_error_code(std::string_view text);

/// How a trial ended. The numbers are stored in databases: append only.
enum class Outcome : std::uint8_t {
  ok = 0,
  rejected = 1,
  compile_error = 2,
  launch_error = 3,
  timeout = 4,
  crash = 5,
  wrong_result = 6,
  out_of_bounds = 7,
  nondeterministic = 8,
  resource = 9,
};
inline constexpr int kOutcomeCount = 10;
std::string_view name(Outcome outcome);
std::optional<Outcome> parse_outcome(std::string_view text);

/// How well a stored variant fits the device that asks. Earlier is better.
enum class Match : std::uint8_t {
  exact,          ///< same device, same toolchain
  soft_mismatch,  ///< hard parts agree; model, clocks, driver or compiler differ
  nearest,        ///< same kind and architecture; core count, features or generator version differ
  untuned,        ///< a default schedule, never tuned for these sizes; needs a passed verification
};
std::string_view name(Match match);

/// A failure without a bug. The four parts are read in this order; `where` and `works` may be empty.
struct Error {
  ErrorCode code = ErrorCode::bug;
  std::string asked;  ///< what was asked
  std::string found;  ///< what was found, with numbers
  std::string where;  ///< file:line:column, step, or kernel text with the place marked (may span lines)
  std::string works;  ///< what would work

  /// `code: asked: found`, then indented lines for where and works.
  std::string message() const;
  /// Adds a line to the front of `where`, as an error travels up.
  Error with_context(std::string context) &&;
};

/// Thrown for a broken invariant of Loopwright itself, never for bad input. It does not cross the C interface.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
[[noreturn]] void throw_bug(const char* file, int line, const char* condition, const std::string& detail);

/// A value or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return get(); }
  const T& value() const& { return const_cast<Result*>(this)->get(); }
  T&& value() && { return std::move(get()); }
  T& operator*() & { return get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(get()); }
  T* operator->() { return &get(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    if (ok()) throw_bug(__FILE__, __LINE__, "ok()", "error() of a success");
    return std::get<1>(state_);
  }

 private:
  T& get() {
    if (!ok())
      throw_bug(__FILE__, __LINE__, "!ok()", "value() of a failure: " + std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
struct Unit {};
using Status = Result<Unit>;

}  // namespace loopwright

/// Throws loopwright::Bug when `condition` holds.
#define LW_BUG_IF(condition, detail)                                                  \
  do {                                                                                \
    if (condition) ::loopwright::throw_bug(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)

#define LW_CONCAT_(a, b) a##b
#define LW_CONCAT(a, b) LW_CONCAT_(a, b)
/// `LW_TRY(auto x, f());` binds the value, or returns the error from the enclosing function.
#define LW_TRY(declaration, expression) LW_TRY_(LW_CONCAT(lw_result_, __LINE__), declaration, expression)
#define LW_TRY_(result, declaration, expression) \
  auto result = (expression);                    \
  if (!result.ok()) return result.error();       \
  declaration = std::move(result).value()
/// Returns the error of a Status from the enclosing function.
#define LW_CHECK(expression)                                                      \
  do {                                                                            \
    if (auto lw_status = (expression); !lw_status.ok()) return lw_status.error(); \
  } while (false)
