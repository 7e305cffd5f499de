#include "src/cli/shapes_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "src/support/read_file.h"

namespace loopwright::cli {
namespace {

constexpr std::size_t kMostShapesBytes = 256 << 20;
constexpr std::size_t kMostShapes = 4096;
constexpr const char* kShapeForms = "lines such as `tokens=17 count=3`, or a table: `tokens,count` and below it `17,3`";

std::vector<std::string> split_words(std::string_view line) {
  constexpr std::string_view kSeparators = " \t\r,;";
  std::vector<std::string> words;
  while (true) {
    const std::size_t from = line.find_first_not_of(kSeparators);
    if (from == std::string_view::npos) return words;
    line.remove_prefix(from);
    const std::size_t length = std::min(line.find_first_of(kSeparators), line.size());
    words.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
}

class ShapesReader {
 public:
  ShapesReader(const std::string& path, const std::vector<Symbol>& symbols) : path_(path), symbols_(symbols) {}

  Status add_line(std::string_view line) {
    ++line_;
    const std::vector<std::string> words = split_words(line.substr(0, line.find('#')));
    if (words.empty()) return Unit{};
    std::map<std::string, std::string> fields;
    if (words.front().find('=') != std::string::npos) {
      for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) return fail(ErrorCode::syntax, "`" + word + "`, which names nothing");
        fields[word.substr(0, equals)] = word.substr(equals + 1);
      }
    } else if (columns_.empty()) {
      columns_ = words;
      return Unit{};
    } else {
      if (words.size() != columns_.size())
        return fail(ErrorCode::syntax, std::to_string(words.size()) + " values for " + std::to_string(columns_.size()) + " columns");
      for (std::size_t i = 0; i < words.size(); ++i) fields[columns_[i]] = words[i];
    }
    return add_shape(fields);
  }

  Result<std::vector<ShapeCount>> take() {
    if (counts_.empty()) return fail(ErrorCode::syntax, "no shape");
    std::vector<ShapeCount> shapes;
    for (const auto& [values, count] : counts_) shapes.push_back({values, count});
    if (shapes.size() <= kMostShapes) return shapes;
    std::stable_sort(shapes.begin(), shapes.end(), [](const ShapeCount& a, const ShapeCount& b) { return a.count > b.count; });
    shapes.resize(kMostShapes);
    return shapes;
  }

 private:
  Error fail(ErrorCode code, std::string found) const {
    return {code, "how often shapes are used", std::move(found), path_ + ":" + std::to_string(line_), kShapeForms};
  }

  template <class Number>
  Status read_number(const std::string& text, Number& value) const {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fail(ErrorCode::syntax, "`" + text + "`, which is no number");
    return Unit{};
  }

  Status add_shape(const std::map<std::string, std::string>& fields) {
    Bindings values;
    for (const Symbol& s : symbols_) {
      const auto field = fields.find(s.name);
      if (field == fields.end()) return fail(ErrorCode::unknown_name, "no value for symbol `" + s.name + "`");
      std::int64_t value = 0;
      LW_CHECK(read_number(field->second, value));
      if (value < s.lo || value > s.hi)
        return fail(ErrorCode::out_of_range, s.name + "=" + field->second + " beyond the graph's " + std::to_string(s.lo) + ".." + std::to_string(s.hi));
      values[s.name] = value;
    }
    double count = 1;
    if (const auto field = fields.find("count"); field != fields.end()) LW_CHECK(read_number(field->second, count));
    if (!(count >= 0) || !std::isfinite(count)) return fail(ErrorCode::out_of_range, "a count of " + fields.at("count"));
    if (count > 0) counts_[values] += count;
    return Unit{};
  }

  const std::string& path_;
  const std::vector<Symbol>& symbols_;
  std::int64_t line_ = 0;
  std::vector<std::string> columns_;
  std::map<Bindings, double> counts_;
};

}  // namespace

Result<std::vector<ShapeCount>> read_shape_counts(const std::string& path, const std::vector<Symbol>& symbols) {
  if (symbols.empty()) return std::vector<ShapeCount>{};
  LW_TRY(const std::string text, read_file(path, kMostShapesBytes));
  ShapesReader reader(path, symbols);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    LW_CHECK(reader.add_line(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return reader.take();
}

}  // namespace loopwright::cli
