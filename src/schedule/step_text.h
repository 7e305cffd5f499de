// Steps as text: each step lists its fields once, and that list both prints and reads a line of a trace.
//
//   template <class Self, class F> static void fields(Self& s, F& f) { f.name(s.loop); f.word("by"); ... }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/schedule.h"
#include "src/ir/kernel.h"
#include "src/support/text.h"

namespace loopwright::schedule {

/// What a step leaves: the new kernel, and the loops that it made.
struct Applied {
  ir::Kernel kernel;
  std::vector<std::string> made;
};

/// Writes fields.
class FieldWriter {
 public:
  void word(std::string_view w) { add(w); }
  void name(const std::string& n) { add(n); }
  void names(const std::vector<std::string>& n) { add(text::join(n, ", ")); }
  void number(std::int64_t n) { add(std::to_string(n)); }
  void numbers(const std::vector<std::int64_t>& n);
  void flag(std::string_view when_false, std::string_view when_true, bool value) {
    add(value ? when_true : when_false);
  }
  template <class E>
  void choice(const std::vector<std::string_view>& words, E value) {
    add(words[static_cast<std::size_t>(value)]);
  }
  /// `w` and the numbers when there are any.
  template <class Int>
  void optional_numbers(std::string_view w, const std::vector<Int>& n) {
    if (n.empty()) return;
    add(w);
    numbers(std::vector<std::int64_t>(n.begin(), n.end()));
  }
  void optional_word(std::string_view w, bool present) {
    if (present) add(w);
  }
  /// The name, or `*` when it is empty.
  void name_or_all(const std::string& n) { add(n.empty() ? "*" : n); }
  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view w);
  std::string out_;
};

/// Reads fields; keeps the first error and leaves the rest alone.
class FieldReader {
 public:
  FieldReader(text::Reader& reader, std::string asked) : reader_(reader), asked_(std::move(asked)) {}
  void word(std::string_view w);
  void name(std::string& n);
  void names(std::vector<std::string>& n);
  void number(std::int64_t& n);
  void numbers(std::vector<std::int64_t>& n);
  void flag(std::string_view when_false, std::string_view when_true, bool& value);
  template <class E>
  void choice(const std::vector<std::string_view>& words, E& value) {
    value = static_cast<E>(one_of(words));
  }
  template <class Int>
  void optional_numbers(std::string_view w, std::vector<Int>& n) {
    if (!status_.ok() || !reader_.accept(w)) return;
    std::vector<std::int64_t> wide;
    numbers(wide);
    n.clear();
    for (const std::int64_t v : wide) {
      if (v != static_cast<std::int64_t>(static_cast<Int>(v))) status_ = too_wide(v);
      n.push_back(static_cast<Int>(v));
    }
  }
  void optional_word(std::string_view w, bool& present) { present = status_.ok() && reader_.accept(w); }
  void name_or_all(std::string& n);
  const Status& status() const { return status_; }

 private:
  std::size_t one_of(const std::vector<std::string_view>& words);
  Error too_wide(std::int64_t value) const;
  text::Reader& reader_;
  std::string asked_;
  Status status_ = Unit{};
};

/// Words of the public enums in traces.
const std::vector<std::string_view>& tail_words();
const std::vector<std::string_view>& place_words();
const std::vector<std::string_view>& axis_words();
ir::Memory memory_of(Place place);
ir::LoopKind kind_of(Axis axis);

}  // namespace loopwright::schedule
