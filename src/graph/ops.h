// The op table: one row an op, with its operands, attributes, dtype and shape rules, and its meaning as an index
// expression. Everything that knows an op reads it from here: the builder, the text format, the naive kernel, grouping.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "loopwright/graph.h"
#include "src/ir/kernel.h"

namespace loopwright::graph {

// ---------------------------------------------------------------- signatures

/// `number` is an integer or a float, `word` one of a few names, `dims` sizes over symbols.
enum class AttributeType : std::uint8_t { integer, number, flag, word, dtype, integers, dims };
std::string_view name(AttributeType type);

struct AttributeSpec {
  std::string name;
  AttributeType type = AttributeType::integer;
  bool required = false;
  std::optional<Attribute> fallback;  ///< value when absent; none = the op decides
};

/// What can be called in a graph file. `operands` has one letter an operand: `T` the op's element type (all T operands
/// agree), `B` bool, `I` any integer type, `F` any float type. `?` after a letter: may be absent; `*` after the last one: any number.
struct Signature {
  std::string name;
  std::string operands;
  std::vector<AttributeSpec> attributes;

  int min_operands() const;
  int max_operands() const;
  /// Letter of operand `position`.
  char operand(int position) const;
  const AttributeSpec* attribute(std::string_view name) const;
};
inline constexpr int kMaxOperands = 1024;
inline constexpr int kMaxRank = 8;

// ---------------------------------------------------------------- one use of an op

struct Op;

/// An op with its operands: what type rules and definitions look at.
struct Call {
  const Op* op = nullptr;
  std::vector<TensorType> operands;
  std::vector<std::string> names;  ///< of the operands, for messages
  std::map<std::string, Attribute, std::less<>>
      attributes;  ///< defaults filled in, axes counted from the front
  TensorType result;
  const std::vector<Symbol>* symbols = nullptr;             ///< of the graph
  const std::vector<ir::SymbolParam>* variables = nullptr;  ///< of the kernel, when one is being built

  bool has(std::string_view attribute) const { return attributes.contains(attribute); }
  std::int64_t integer(std::string_view attribute) const;
  double number(std::string_view attribute) const;
  bool flag(std::string_view attribute) const;
  const std::string& word(std::string_view attribute) const;
  DType dtype(std::string_view attribute) const;
  const std::vector<std::int64_t>& integers(std::string_view attribute) const;
  const std::vector<Dim>& dims(std::string_view attribute) const;
  /// The index expression of a size.
  ir::Expr size(const Dim& dim) const;
  /// True when `dim >= least` for all values of the symbols.
  bool is_at_least(const Dim& dim, std::int64_t least) const;
  /// `add(a: f32[4], b: bf16[4])`, for messages.
  std::string text() const;
  Error error(ErrorCode code, std::string found, std::string works = "") const;
};

// ---------------------------------------------------------------- meaning

using Index = std::vector<ir::Expr>;
/// The element of an operand at an index.
using Read = std::function<ir::Expr(int operand, const Index& index)>;

/// Element by element, operands broadcast.
struct Pointwise {
  std::function<ir::Expr(const Call&, const std::vector<ir::Expr>& operands)> value;
};
/// Any expression over elements of the operands: views, gathers, sources.
struct Indexed {
  std::function<ir::Expr(const Call&, const Read&, const Index&)> value;
};
/// state[outer] = combine over `reduced` of values(outer, reduced); result = finish(state), cast to the result's dtype.
/// The functions refer to the call they were made from, which must outlive them.
struct ReductionParts {
  ir::Monoid monoid = ir::Monoid::sum;
  std::vector<DType> state;
  std::vector<Dim> reduced;
  std::vector<bool> collapsed;  ///< result axes of extent 1 that stand for reduced ones
  std::function<std::vector<ir::Expr>(const Read&, const Index& outer, const Index& reduced)> values;
  /// Empty: the first component.
  std::function<ir::Expr(const Read&, const Index& outer, const std::vector<ir::Expr>& state)> finish;
};
struct Reduction {
  std::function<ReductionParts(const Call&)> parts;
};
/// Running sum along attribute `axis`, carried in the accumulator's dtype.
struct Scan {};
/// result = operand 0; then for every index of operand `domain` in row-major order, where `condition` holds:
/// result[at] = value, or result[at] += value.
struct WriteParts {
  ir::Expr condition;
  Index at;
  ir::Expr value;
  bool add = false;
};
struct Write {
  int domain = 1;
  std::function<WriteParts(const Call&, const Read&, const Index&)> parts;
};
using Definition = std::variant<Pointwise, Indexed, Reduction, Scan, Write>;

// ---------------------------------------------------------------- the table

/// For grouping and choice of templates.
enum class OpKind : std::uint8_t { source, pointwise, view, gather, reduction, contraction, scan, write };
std::string_view name(OpKind kind);

/// The dtype of the result: of the T operands, bool, i64, attribute `dtype`, or attribute `out` (the T operands' or
/// their accumulator's; T when absent, i64 for bool).
enum class ResultDType : std::uint8_t { same, boolean, index, attribute, accumulated };

struct Op {
  Signature signature;
  OpKind kind = OpKind::pointwise;
  unsigned dtypes = 0;  ///< bit 1 << DType: allowed for T
  ResultDType result = ResultDType::same;
  std::function<Status(Call&)> shape;  ///< sets call.result.shape, counts axes from the front
  Definition definition;
  std::string meaning;  ///< one line for people
};

/// All ops, in the order of the documentation.
const std::vector<Op>& op_table();
/// Null when there is none.
const Op* find_op(std::string_view name);
/// The table as Markdown: op, operands, attributes, meaning.
std::string coverage();
/// Names of ops and composites, for suggestions.
std::vector<std::string> callable_names();

/// Arity, attributes and dtypes checked, defaults filled in; no result yet. Absent operands (id -1) are left out.
Result<Call> check_call(const Graph& g, const Op& op, const std::vector<Value>& inputs,
                        const std::vector<NamedAttribute>& attributes);
/// check_call, and infers the result.
Result<Call> make_call(const Graph& g, const Op& op, const std::vector<Value>& inputs,
                       const std::vector<NamedAttribute>& attributes);
/// The call of a node that is in `g` (not an input).
Call call_of(const Graph& g, const Node& node);
/// Product of sizes; overflowed when it has too many terms to be worth having.
Dim product(std::span<const Dim> dims);
/// size_overflow when the bytes of a tensor may not fit 63 bits for some values of the symbols.
Status check_size(const TensorType& type, const std::vector<Symbol>& symbols, const std::string& asked);
/// The index of an operand's element that meets `index` of the result under broadcasting.
Index broadcast_index(const TensorType& operand, const TensorType& result, const Index& index);
/// The nearest of `names`, as ` (did you mean `x`?)`, or nothing.
std::string suggestion(std::string_view found, const std::vector<std::string>& names);

}  // namespace loopwright::graph
