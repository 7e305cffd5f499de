// Checking and inferring one use of an op.
#include <algorithm>
#include <cmath>

#include "src/graph/composites.h"
#include "src/graph/ops.h"

namespace loopwright::graph {

std::string_view name(AttributeType type) {
  switch (type) {
    case AttributeType::integer: return "integer";
    case AttributeType::number: return "number";
    case AttributeType::flag: return "true or false";
    case AttributeType::word: return "word";
    case AttributeType::dtype: return "dtype";
    case AttributeType::integers: return "list of integers";
    case AttributeType::dims: return "list of sizes";
  }
  return "?";
}

std::string_view name(OpKind kind) {
  switch (kind) {
    case OpKind::source: return "source";
    case OpKind::pointwise: return "pointwise";
    case OpKind::view: return "view";
    case OpKind::gather: return "gather";
    case OpKind::reduction: return "reduction";
    case OpKind::contraction: return "contraction";
    case OpKind::scan: return "scan";
    case OpKind::write: return "write";
  }
  return "?";
}

// ---------------------------------------------------------------- signatures

int Signature::min_operands() const {
  int count = 0;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (std::isalpha(static_cast<unsigned char>(operands[i])) &&
        !(i + 1 < operands.size() && operands[i + 1] == '?'))
      ++count;
  return count;
}

int Signature::max_operands() const {
  if (operands.ends_with('*')) return kMaxOperands;
  return static_cast<int>(std::count_if(operands.begin(), operands.end(), [](char c) { return c != '?'; }));
}

char Signature::operand(int position) const {
  std::string letters;
  for (char c : operands)
    if (c != '?' && c != '*') letters += c;
  if (letters.empty()) return '?';
  return letters[std::min<std::size_t>(position, letters.size() - 1)];
}

const AttributeSpec* Signature::attribute(std::string_view name) const {
  auto found = std::find_if(attributes.begin(), attributes.end(),
                            [&](const AttributeSpec& spec) { return spec.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

// ---------------------------------------------------------------- Call

namespace {
template <class T>
const T& get_attribute(const Call& call, std::string_view name) {
  auto found = call.attributes.find(name);
  LW_BUG_IF(found == call.attributes.end(),
            call.op->signature.name + " without attribute " + std::string(name));
  const T* value = std::get_if<T>(&found->second);
  LW_BUG_IF(!value, call.op->signature.name + ": attribute " + std::string(name) + " of another type");
  return *value;
}
}  // namespace

std::int64_t Call::integer(std::string_view attribute) const {
  return get_attribute<std::int64_t>(*this, attribute);
}
double Call::number(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  LW_BUG_IF(found == attributes.end(), op->signature.name + " without attribute " + std::string(attribute));
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  return get_attribute<double>(*this, attribute);
}
bool Call::flag(std::string_view attribute) const { return get_attribute<bool>(*this, attribute); }
const std::string& Call::word(std::string_view attribute) const {
  return get_attribute<std::string>(*this, attribute);
}
DType Call::dtype(std::string_view attribute) const { return get_attribute<DType>(*this, attribute); }
const std::vector<std::int64_t>& Call::integers(std::string_view attribute) const {
  return get_attribute<std::vector<std::int64_t>>(*this, attribute);
}
const std::vector<Dim>& Call::dims(std::string_view attribute) const {
  return get_attribute<std::vector<Dim>>(*this, attribute);
}

ir::Expr Call::size(const Dim& dim) const {
  LW_BUG_IF(!variables, "a size is needed outside a kernel");
  return ir::to_expr(dim, *variables);
}

bool Call::is_at_least(const Dim& dim, std::int64_t least) const {
  Result<Dim::Bounds> bounds = dim.bounds(*symbols);
  return bounds.ok() && bounds->lo >= least;
}

std::string Call::text() const {
  std::string out = op->signature.name + "(";
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i == 6 && operands.size() > 8) {
      out += ", ... " + std::to_string(operands.size() - i) + " more";
      break;
    }
    out += (i ? ", " : "") + names[i] + ": " + operands[i].text();
  }
  return out + ")";
}

Error Call::error(ErrorCode code, std::string found, std::string works) const {
  return Error{code, text(), std::move(found), "", std::move(works)};
}

// ---------------------------------------------------------------- sizes

Dim product(std::span<const Dim> dims) {
  constexpr std::size_t kMaxTerms = 1 << 12;
  Dim out(1);
  for (const Dim& dim : dims) {
    if (out.terms().size() * dim.terms().size() > kMaxTerms)
      return Dim(INT64_MAX) * Dim(2);  // the overflowed state
    out = out * dim;
  }
  return out;
}

Status check_size(const TensorType& type, const std::vector<Symbol>& symbols, const std::string& asked) {
  constexpr std::size_t kMaxTerms = 64, kMaxDegree = 16;
  auto overflow = [&](const std::string& what) {
    return Error{ErrorCode::size_overflow, asked,
                 what + " of " + type.text() + " does not fit 63 bits for some values of the symbols", "",
                 "smaller sizes or narrower symbol ranges"};
  };
  std::vector<Dim> positive;  // a zero elsewhere must not hide an overflow of a stride
  for (const Dim& dim : type.shape) {
    if (dim.overflowed()) return overflow("a size");
    if (dim.terms().size() > kMaxTerms)
      return Error{ErrorCode::size_overflow, asked,
                   "a size with " + std::to_string(dim.terms().size()) + " terms", "",
                   "at most " + std::to_string(kMaxTerms) + " terms"};
    for (const auto& [monomial, coefficient] : dim.terms())
      if (monomial.size() > kMaxDegree)
        return Error{ErrorCode::size_overflow, asked, "a size of degree " + std::to_string(monomial.size()),
                     "", "at most degree " + std::to_string(kMaxDegree)};
    Result<Dim::Bounds> bounds = dim.bounds(symbols);
    if (!bounds.ok())
      return bounds.error().code == ErrorCode::size_overflow ? overflow("a size") : bounds.error();
    positive.push_back(Dim(std::max<std::int64_t>({bounds->hi, -std::max(bounds->lo, -INT64_MAX), 1})));
  }
  positive.push_back(Dim(size_bytes(type.dtype)));
  if (product(positive).overflowed()) return overflow("the number of bytes");
  if (product(type.shape).overflowed()) return overflow("the number of elements");
  return Unit{};
}

Index broadcast_index(const TensorType& operand, const TensorType& result, const Index& index) {
  Index source;
  const std::size_t skip = result.shape.size() - operand.shape.size();
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    const bool repeated = operand.shape[d] != result.shape[skip + d];
    source.push_back(repeated ? ir::int_imm(0) : index[skip + d]);
  }
  return source;
}

// ---------------------------------------------------------------- inference

namespace {

std::string dtype_list(unsigned mask) {
  std::string out;
  for (int i = 0; i < kDTypeCount; ++i)
    if (mask >> i & 1) out += (out.empty() ? "" : ", ") + std::string(name(static_cast<DType>(i)));
  return out;
}

bool has_type(const Attribute& value, AttributeType type) {
  switch (type) {
    case AttributeType::integer: return std::holds_alternative<std::int64_t>(value);
    case AttributeType::number:
      return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
    case AttributeType::flag: return std::holds_alternative<bool>(value);
    case AttributeType::word: return std::holds_alternative<std::string>(value);
    case AttributeType::dtype: return std::holds_alternative<DType>(value);
    case AttributeType::integers: return std::holds_alternative<std::vector<std::int64_t>>(value);
    case AttributeType::dims: return std::holds_alternative<std::vector<Dim>>(value);
  }
  return false;
}

/// A list of numbers where sizes are wanted, and the other way round.
Attribute convert_list(Attribute value, AttributeType type) {
  if (type == AttributeType::dims)
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value))
      return std::vector<Dim>(numbers->begin(), numbers->end());
  if (type == AttributeType::integers)
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
      std::vector<std::int64_t> numbers;
      for (const Dim& dim : *dims) {
        if (!dim.is_constant()) return value;
        numbers.push_back(*dim.constant());
      }
      return numbers;
    }
  return value;
}

Status fill_attributes(Call& call, const std::vector<NamedAttribute>& given) {
  const Signature& signature = call.op->signature;
  for (const NamedAttribute& attribute : given) {
    const AttributeSpec* spec = signature.attribute(attribute.name);
    if (!spec) {
      std::vector<std::string> names;
      std::string known;
      for (const AttributeSpec& s : signature.attributes) {
        names.push_back(s.name);
        known += (known.empty() ? "" : ", ") + s.name;
      }
      return call.error(ErrorCode::bad_attribute,
                        "attribute `" + attribute.name + "`" + suggestion(attribute.name, names),
                        known.empty() ? "no attributes" : "attributes " + known);
    }
    if (call.attributes.contains(attribute.name))
      return call.error(ErrorCode::bad_attribute, "attribute `" + attribute.name + "` twice",
                        "each attribute once");
    Attribute value = convert_list(attribute.value, spec->type);
    if (!has_type(value, spec->type))
      return call.error(ErrorCode::bad_attribute, "attribute `" + attribute.name + "` of another type",
                        "a " + std::string(name(spec->type)));
    call.attributes.emplace(attribute.name, std::move(value));
  }
  for (const AttributeSpec& spec : signature.attributes) {
    if (call.attributes.contains(spec.name)) continue;
    if (spec.required)
      return call.error(ErrorCode::bad_attribute, "no attribute `" + spec.name + "`",
                        spec.name + "=<" + std::string(name(spec.type)) + ">");
    if (spec.fallback) call.attributes.emplace(spec.name, *spec.fallback);
  }
  if (call.has("reduce") && call.word("reduce") != "none" && call.word("reduce") != "add")
    return call.error(ErrorCode::bad_attribute, "reduce=" + call.word("reduce"), "reduce=none or reduce=add");
  return Unit{};
}

std::string operand_text(const Call& call, std::size_t i) {
  return "`" + call.names[i] + "` is " + std::string(name(call.operands[i].dtype));
}

Status check_operand_dtypes(const Call& call) {
  const Signature& signature = call.op->signature;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const DType dtype = call.operands[i].dtype;
    switch (signature.operand(static_cast<int>(i))) {
      case 'B':
        if (dtype != DType::boolean)
          return call.error(ErrorCode::dtype_mismatch, operand_text(call, i), "bool");
        break;
      case 'I':
        if (!is_integer(dtype))
          return call.error(ErrorCode::dtype_mismatch, operand_text(call, i), "an integer dtype");
        break;
      case 'F':
        if (!is_float(dtype))
          return call.error(ErrorCode::dtype_mismatch, operand_text(call, i), "a float dtype");
        break;
      default:
        if (!(call.op->dtypes >> static_cast<unsigned>(dtype) & 1))
          return call.error(ErrorCode::dtype_mismatch, operand_text(call, i),
                            "one of " + dtype_list(call.op->dtypes));
        if (!first) first = i;
        else if (call.operands[*first].dtype != dtype)
          return call.error(ErrorCode::dtype_mismatch,
                            operand_text(call, *first) + ", " + operand_text(call, i),
                            "equal dtypes; nothing is promoted: cast(" + call.names[i] + ", " +
                                std::string(name(call.operands[*first].dtype)) + ")");
    }
  }
  return Unit{};
}

Status infer_dtype(Call& call) {
  const DType own = call.operands.empty() || call.op->result == ResultDType::attribute ? DType::f32
                    : call.op->signature.operand(0) == 'T' ? call.operands[0].dtype
                                                           : call.operands.back().dtype;
  switch (call.op->result) {
    case ResultDType::same: call.result.dtype = own; return Unit{};
    case ResultDType::boolean: call.result.dtype = DType::boolean; return Unit{};
    case ResultDType::index: call.result.dtype = DType::i64; return Unit{};
    case ResultDType::attribute:
      call.result.dtype = call.dtype("dtype");
      if (call.op->kind == OpKind::source &&
          !(call.op->dtypes >> static_cast<unsigned>(call.result.dtype) & 1))
        return call.error(ErrorCode::bad_attribute, "dtype " + std::string(name(call.result.dtype)),
                          "one of " + dtype_list(call.op->dtypes));
      return Unit{};
    case ResultDType::accumulated: break;
  }
  const DType plain = own == DType::boolean ? DType::i64 : own;
  call.result.dtype = call.has("out") ? call.dtype("out") : plain;
  if (call.result.dtype != plain && call.result.dtype != accumulator(own))
    return call.error(
        ErrorCode::bad_attribute, "out " + std::string(name(call.result.dtype)),
        std::string(name(plain)) + " or the accumulator's dtype " + std::string(name(accumulator(own))));
  if (call.result.dtype == plain) call.attributes.erase("out");
  return Unit{};
}

/// A constant's value in the one form that its dtype has: integers whole and in range, floats as double.
Status normalise_constant(Call& call) {
  Attribute& value = call.attributes["value"];
  const DType dtype = call.result.dtype;
  const auto* whole = std::get_if<std::int64_t>(&value);
  if (is_float(dtype)) {
    if (whole) value = static_cast<double>(*whole);
    return Unit{};
  }
  auto refuse = [&](const std::string& found) {
    return call.error(ErrorCode::bad_attribute, "value " + found,
                      "a value that " + std::string(name(dtype)) + " holds exactly");
  };
  if (!whole) {
    const double real = std::get<double>(value);
    if (!(std::trunc(real) == real && std::fabs(real) < 9007199254740992.0))
      return refuse(std::to_string(real));
    value = static_cast<std::int64_t>(real);
    whole = std::get_if<std::int64_t>(&value);
  }
  const int bits = size_bytes(dtype) * 8;
  const bool fits =
      dtype == DType::boolean ? *whole == 0 || *whole == 1
      : dtype == DType::u8    ? *whole >= 0 && *whole <= 255
      : bits == 64            ? true
                   : *whole >= -(std::int64_t{1} << (bits - 1)) && *whole < (std::int64_t{1} << (bits - 1));
  if (!fits) return refuse(std::to_string(*whole));
  return Unit{};
}

Status check_arity(const Call& call) {
  const Signature& signature = call.op->signature;
  const int count = static_cast<int>(call.operands.size());
  if (count >= signature.min_operands() && count <= signature.max_operands()) return Unit{};
  const std::string wanted = signature.max_operands() == kMaxOperands
                                 ? "1 to " + std::to_string(kMaxOperands)
                                 : std::to_string(signature.max_operands());
  std::string works = wanted + (wanted == "1" ? " operand" : " operands");
  if (count == 1 && (signature.name == "max" || signature.name == "min"))
    works += "; reduce_" + signature.name + " goes over axes";
  return call.error(ErrorCode::wrong_arity, std::to_string(count) + (count == 1 ? " operand" : " operands"),
                    works);
}

}  // namespace

Result<Call> check_call(const Graph& g, const Op& op, const std::vector<Value>& inputs,
                        const std::vector<NamedAttribute>& attributes) {
  Call call;
  call.op = &op;
  call.symbols = &g.symbols();
  for (Value v : inputs) {
    if (v.id == -1) continue;
    call.operands.push_back(g.type(v));
    call.operands.back().strides.clear();
    call.names.push_back(g.node(v).name);
  }
  LW_CHECK(check_arity(call));
  LW_CHECK(fill_attributes(call, attributes));
  LW_CHECK(check_operand_dtypes(call));
  return call;
}

Result<Call> make_call(const Graph& g, const Op& op, const std::vector<Value>& inputs,
                       const std::vector<NamedAttribute>& attributes) {
  LW_TRY(Call call, check_call(g, op, inputs, attributes));
  LW_CHECK(infer_dtype(call));
  if (op.signature.name == "constant") LW_CHECK(normalise_constant(call));
  LW_CHECK(op.shape(call));
  if (call.result.rank() > kMaxRank)
    return call.error(ErrorCode::shape_mismatch, "a result of rank " + std::to_string(call.result.rank()),
                      "rank at most " + std::to_string(kMaxRank));
  LW_CHECK(check_size(call.result, g.symbols(), call.text()));
  return call;
}

Call call_of(const Graph& g, const Node& node) {
  Call call;
  call.op = find_op(node.op);
  LW_BUG_IF(!call.op, "node `" + node.name + "` with op " + node.op);
  call.symbols = &g.symbols();
  for (Value v : node.inputs) {
    call.operands.push_back(g.type(v));
    call.operands.back().strides.clear();
    call.names.push_back(g.node(v).name);
  }
  for (const NamedAttribute& attribute : node.attributes) call.attributes[attribute.name] = attribute.value;
  for (const AttributeSpec& spec : call.op->signature.attributes)
    if (spec.fallback) call.attributes.try_emplace(spec.name, *spec.fallback);
  call.result = node.type;
  return call;
}

// ---------------------------------------------------------------- words for people

namespace {
/// Insertions, deletions, changes and swaps of neighbours that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}
}  // namespace

std::string suggestion(std::string_view found, const std::vector<std::string>& names) {
  constexpr std::size_t kLongestName = 64;
  std::string best;
  std::size_t best_distance = 1 + std::max<std::size_t>(1, std::min<std::size_t>(3, found.size() / 2));
  if (found.size() > kLongestName) return "";
  for (const std::string& candidate : names) {
    if (candidate.size() > kLongestName) continue;
    const std::size_t distance = edit_distance(found, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : " (did you mean `" + best + "`?)";
}

std::vector<std::string> callable_names() {
  std::vector<std::string> names;
  for (const Op& op : op_table()) names.push_back(op.signature.name);
  for (const Composite& composite : composite_table()) names.push_back(composite.op.signature.name);
  return names;
}

std::string coverage() {
  std::string out = "| Op | Kind | Operands | Attributes | Meaning |\n|---|---|---|---|---|\n";
  for (const Op& op : op_table()) {
    std::string attributes;
    for (const AttributeSpec& spec : op.signature.attributes)
      attributes += (attributes.empty() ? "" : ", ") + spec.name + (spec.required ? "" : "?");
    out += "| " + op.signature.name + " | " + std::string(name(op.kind)) + " | " + op.signature.operands +
           " | " + attributes + " | " + op.meaning + " |\n";
  }
  return out;
}

}  // namespace loopwright::graph
