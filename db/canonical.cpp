#include "db/canonical.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/support/digest.h"

namespace loopwright::db {

namespace {

using nlohmann::json;

// Object keys are sorted by nlohmann's std::map; doubles are written as the shortest text that reads back the same.
// Bytes that are no UTF-8 (compiler messages) become U+FFFD, the same way every time.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json to_json(const std::string& v) { return v; }
json to_json(std::int64_t v) { return v; }
json to_json(std::uint64_t v) { return v; }
json to_json(double v) { return v; }
json to_json(bool v) { return v; }
json to_json(Outcome v) { return std::string(name(v)); }
json to_json(Rigor v) { return std::string(name(v)); }
json to_json(BestState v) { return std::string(name(v)); }
json to_json(RunState v) { return std::string(name(v)); }
json to_json(ErrorCode v) { return static_cast<std::int32_t>(v); }
json to_json(const Guard& v) { return v.text(); }
json to_json(const Bindings& v) { return write_bindings(v); }
json to_json(const std::vector<double>& v) { return v; }

template <class Enum>
bool set_parsed(Enum& out, const std::optional<Enum>& parsed) {
  if (parsed) out = *parsed;
  return parsed.has_value();
}

bool from_json(const json& j, std::string& v) { return j.is_string() && (v = j.get<std::string>(), true); }
bool from_json(const json& j, std::int64_t& v) {
  // An unsigned number above INT64_MAX would wrap silently.
  if (!j.is_number_integer() || (j.is_number_unsigned() && j.get<std::uint64_t>() > INT64_MAX)) return false;
  v = j.get<std::int64_t>();
  return true;
}
bool from_json(const json& j, std::uint64_t& v) { return j.is_number_unsigned() && (v = j.get<std::uint64_t>(), true); }
bool from_json(const json& j, double& v) { return j.is_number() && (v = j.get<double>(), true); }
bool from_json(const json& j, bool& v) { return j.is_boolean() && (v = j.get<bool>(), true); }
bool from_json(const json& j, Outcome& v) { return j.is_string() && set_parsed(v, parse_outcome(j.get<std::string>())); }
bool from_json(const json& j, Rigor& v) { return j.is_string() && set_parsed(v, parse_rigor(j.get<std::string>())); }
bool from_json(const json& j, BestState& v) {
  return j.is_string() && set_parsed(v, parse_best_state(j.get<std::string>()));
}
bool from_json(const json& j, RunState& v) { return j.is_string() && set_parsed(v, parse_run_state(j.get<std::string>())); }
bool from_json(const json& j, ErrorCode& v) {
  std::int64_t number = 0;
  if (!from_json(j, number) || number < INT32_MIN || number > INT32_MAX) return false;
  v = static_cast<ErrorCode>(number);
  return true;
}
bool from_json(const json& j, Guard& v) {
  if (!j.is_string()) return false;
  auto parsed = Guard::parse(j.get<std::string>());
  if (parsed.ok()) v = *std::move(parsed);
  return parsed.ok();
}
bool from_json(const json& j, Bindings& v) {
  if (!j.is_string()) return false;
  auto parsed = parse_bindings(j.get<std::string>());
  if (parsed.ok()) v = *std::move(parsed);
  return parsed.ok();
}
bool from_json(const json& j, std::vector<double>& v) {
  if (!j.is_array()) return false;
  v.clear();
  for (const json& item : j) {
    if (!item.is_number()) return false;
    v.push_back(item.get<double>());
  }
  return true;
}

struct WriteJson {
  json& object;
  bool keys_only;
  template <class Value>
  void operator()(const Column& column, const Value& value) {
    if (!keys_only || column.use == Use::key) object[std::string(column.name)] = to_json(value);
  }
  void operator()(const Reference& reference, const Digest& digest) { object[std::string(reference.name)] = digest; }
};

struct ReadJson {
  const json& object;
  std::string bad;  // first field that is missing or has a wrong value
  template <class Value>
  void operator()(const Column& column, Value& value) {
    read(column.name, value);
  }
  void operator()(const Reference& reference, Digest& digest) { read(reference.name, digest); }
  template <class Value>
  void read(std::string_view field, Value& value) {
    auto found = object.find(std::string(field));
    if ((found == object.end() || !from_json(*found, value)) && bad.empty()) bad = std::string(field);
  }
};

Error make_line_error(std::string found, std::string_view line) {
  return Error{ErrorCode::syntax, "read a line of an export", std::move(found), std::string(line.substr(0, 120)),
               "a line as `loopwright db export` writes it; export again, or leave the line out"};
}

template <std::size_t kIndex = 0>
Result<AnyRow> parse_as(const std::string& table, const json& object, std::string_view line) {
  if constexpr (kIndex == std::variant_size_v<AnyRow>) {
    return make_line_error("no table `" + table + "`", line);
  } else {
    using Row = std::variant_alternative_t<kIndex, AnyRow>;
    if (table != Fields<Row>::kTable) return parse_as<kIndex + 1>(table, object, line);
    Row row;
    ReadJson reader{object, {}};
    reader.read("digest", row.digest);
    Fields<Row>::each(row, reader);
    if (!reader.bad.empty()) return make_line_error("field `" + reader.bad + "` missing or of a wrong kind", line);
    if (!fits_digest(row)) return make_line_error("content does not fit its digest", line);
    return AnyRow(std::move(row));
  }
}

}  // namespace

std::string write_bindings(const Bindings& values) {
  std::string text;
  for (const auto& [symbol, value] : values) {
    if (!text.empty()) text += ' ';
    text += symbol + '=' + std::to_string(value);
  }
  return text;
}

Result<Bindings> parse_bindings(std::string_view text) {
  Bindings values;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    std::size_t equals = word.find('=');
    std::int64_t value = 0;
    bool fine = equals != std::string_view::npos && equals > 0;
    if (fine) {
      const char* end = word.data() + word.size();
      auto [stop, code] = std::from_chars(word.data() + equals + 1, end, value);
      fine = code == std::errc() && stop == end && values.emplace(word.substr(0, equals), value).second;
    }
    if (!fine) {
      return Error{ErrorCode::syntax, "read symbol values", "`" + std::string(word) + "`", std::string(text),
                   "`name=value` pairs separated by one blank, each name once"};
    }
  }
  return values;
}

template <class Row>
std::string write_canonical(const Row& row) {
  json object = json::object();
  object["table"] = std::string(Fields<Row>::kTable);
  Fields<Row>::each(row, WriteJson{object, true});
  return dump(object);
}

template <class Row>
Digest compute_digest(const Row& row) {
  // Everybody who has a workload's text must be able to compute its key.
  if constexpr (std::is_same_v<Row, WorkloadRow>) return sha256_hex(row.text);
  return sha256_hex(write_canonical(row));
}

Digest compute_hard_digest(const DeviceRow& row) {
  json object = {{"kind", row.kind}, {"arch", row.arch}, {"features", row.features}, {"cores", row.cores}};
  std::uint64_t memory = row.memory_bytes > 0 ? static_cast<std::uint64_t>(row.memory_bytes) : 0;
  object["memory_class_bytes"] = memory == 0 ? 0 : std::bit_ceil(std::min(memory, std::uint64_t{1} << 62));
  return sha256_hex(dump(object));
}

Digest compute_artifact_digest(std::string_view header, const std::vector<std::uint8_t>& image) {
  std::string bytes(header);
  bytes += '\n';
  bytes.append(reinterpret_cast<const char*>(image.data()), image.size());
  return sha256_hex(bytes);
}

template <class Row>
bool fits_digest(const Row& row) {
  if constexpr (std::is_same_v<Row, RunRow>) {
    return row.digest.size() == 64;
  } else {
    if constexpr (std::is_same_v<Row, DeviceRow>) {
      if (row.hard_digest != compute_hard_digest(row)) return false;
    }
    if constexpr (std::is_same_v<Row, PlanRow>) {
      if (row.graph_digest != sha256_hex(row.graph_text)) return false;
    }
    return row.digest == compute_digest(row);
  }
}

template <class Row>
std::string write_line(const Row& row) {
  json object = json::object();
  object["table"] = std::string(Fields<Row>::kTable);
  object["digest"] = row.digest;
  Fields<Row>::each(row, WriteJson{object, false});
  return dump(object);
}

Result<AnyRow> parse_line(std::string_view line) {
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return make_line_error("not a JSON object", line);
  auto table = object.find("table");
  if (table == object.end() || !table->is_string()) return make_line_error("no field `table`", line);
  return parse_as(table->get<std::string>(), object, line);
}

std::string read_line_table(std::string_view line) {
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return {};
  auto table = object.find("table");
  return table != object.end() && table->is_string() ? table->get<std::string>() : std::string();
}

template <class Row>
std::vector<std::string> list_differences(const Row& a, const Row& b) {
  json first = json::object();
  json second = json::object();
  Fields<Row>::each(a, WriteJson{first, false});
  Fields<Row>::each(b, WriteJson{second, false});
  std::vector<std::string> out;
  for (const auto& [field, value] : first.items()) {
    const json& other = second[field];
    if (value != other) out.push_back(field + " " + dump(value) + " → " + dump(other));
  }
  return out;
}

#define LW_INSTANTIATE(Row)                                 \
  template std::string write_canonical(const Row&);         \
  template Digest compute_digest(const Row&);               \
  template bool fits_digest(const Row&);                    \
  template std::string write_line(const Row&);              \
  template std::vector<std::string> list_differences(const Row&, const Row&);
LW_INSTANTIATE(DeviceRow)
LW_INSTANTIATE(ToolchainRow)
LW_INSTANTIATE(PolicyRow)
LW_INSTANTIATE(WorkloadRow)
LW_INSTANTIATE(RangeRow)
LW_INSTANTIATE(ProbeRow)
LW_INSTANTIATE(CandidateRow)
LW_INSTANTIATE(RunRow)
LW_INSTANTIATE(TrialRow)
LW_INSTANTIATE(VerificationRow)
LW_INSTANTIATE(BestRow)
LW_INSTANTIATE(BlockRow)
LW_INSTANTIATE(PlanRow)
#undef LW_INSTANTIATE

std::string encode_base64(const std::vector<std::uint8_t>& bytes) {
  static const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = bytes[i] << 16;
    if (left > 1) group |= bytes[i + 1] << 8;
    if (left > 2) group |= bytes[i + 2];
    for (std::size_t k = 0; k < 4; ++k) out += k <= left ? kDigits[(group >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

Result<std::vector<std::uint8_t>> decode_base64(std::string_view text) {
  auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::vector<std::uint8_t> out;
  bool fine = text.size() % 4 == 0;
  for (std::size_t i = 0; fine && i < text.size(); i += 4) {
    std::size_t padding = i + 4 == text.size() ? (text[i + 3] == '=') + (text[i + 2] == '=' && text[i + 3] == '=') : 0;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      int digit = k + padding >= 4 ? 0 : value_of(text[i + k]);
      fine = fine && digit >= 0;
      group = group << 6 | static_cast<std::uint32_t>(std::max(digit, 0));
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) out.push_back(static_cast<std::uint8_t>(group >> (16 - 8 * k)));
  }
  if (fine) return out;
  return Error{ErrorCode::syntax, "read base64", "a character or length that base64 does not have", "", ""};
}

}  // namespace loopwright::db
