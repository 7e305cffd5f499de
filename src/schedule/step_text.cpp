#include "src/schedule/step_text.h"

namespace loopwright::schedule {

void FieldWriter::add(std::string_view w) {
  if (!out_.empty()) out_ += ' ';
  out_ += w;
}

void FieldWriter::numbers(const std::vector<std::int64_t>& n) {
  std::vector<std::string> parts;
  for (const std::int64_t v : n) parts.push_back(std::to_string(v));
  add(text::join(parts, ", "));
}

void FieldReader::word(std::string_view w) {
  if (status_.ok()) status_ = reader_.expect(w, asked_);
}

void FieldReader::name(std::string& n) {
  if (!status_.ok()) return;
  auto read = reader_.expect_identifier(asked_);
  if (read.ok()) n = *read;
  else status_ = read.error();
}

void FieldReader::names(std::vector<std::string>& n) {
  n.clear();
  do {
    name(n.emplace_back());
  } while (status_.ok() && reader_.accept(","));
}

void FieldReader::number(std::int64_t& n) {
  if (!status_.ok()) return;
  const auto read = reader_.expect_integer(asked_);
  if (read.ok()) n = *read;
  else status_ = read.error();
}

void FieldReader::numbers(std::vector<std::int64_t>& n) {
  n.clear();
  do {
    number(n.emplace_back());
  } while (status_.ok() && reader_.accept(","));
}

void FieldReader::flag(std::string_view when_false, std::string_view when_true, bool& value) {
  value = one_of({when_false, when_true}) == 1;
}

void FieldReader::name_or_all(std::string& n) {
  if (status_.ok() && reader_.accept("*")) n.clear();
  else name(n);
}

std::size_t FieldReader::one_of(const std::vector<std::string_view>& words) {
  if (!status_.ok()) return 0;
  std::string expected;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (reader_.accept(words[i])) return i;
    expected += (i ? " or `" : "`") + std::string(words[i]) + "`";
  }
  status_ = reader_.unexpected(asked_, expected);
  return 0;
}

Error FieldReader::too_wide(std::int64_t value) const {
  return {ErrorCode::size_overflow, asked_, std::to_string(value) + " does not fit", {}, {}};
}

const std::vector<std::string_view>& tail_words() {
  static const std::vector<std::string_view> words{"guard", "exact"};
  return words;
}

const std::vector<std::string_view>& place_words() {
  static const std::vector<std::string_view> words{"global", "shared", "registers", "fragment"};
  return words;
}

const std::vector<std::string_view>& axis_words() {
  static const std::vector<std::string_view> words{"grid_x",   "grid_y",    "grid_z", "thread_x",
                                                   "thread_y", "cluster_x", "across", "last_block"};
  return words;
}

ir::LoopKind kind_of(Axis axis) {
  switch (axis) {
    case Axis::grid_x: return ir::LoopKind::grid_x;
    case Axis::grid_y: return ir::LoopKind::grid_y;
    case Axis::grid_z: return ir::LoopKind::grid_z;
    case Axis::thread_x: return ir::LoopKind::thread_x;
    case Axis::thread_y: return ir::LoopKind::thread_y;
    case Axis::cluster_x: return ir::LoopKind::cluster_x;
    case Axis::across: return ir::LoopKind::across;
    case Axis::last_block: return ir::LoopKind::last_block;
  }
  return ir::LoopKind::serial;
}

ir::Memory memory_of(Place place) {
  switch (place) {
    case Place::global: return ir::Memory::global;
    case Place::shared: return ir::Memory::shared;
    case Place::registers: return ir::Memory::registers;
    case Place::fragment: return ir::Memory::fragment;
  }
  return ir::Memory::global;
}

}  // namespace loopwright::schedule
