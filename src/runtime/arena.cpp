#include "src/runtime/arena.h"

#include <algorithm>
#include <numeric>

#include "src/runtime/device.h"

namespace loopwright::runtime {
namespace {

using Op = SizeExpr::Op;

bool lives_overlap(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

SizeExpr round_to_block(const SizeExpr& bytes) {
  return SizeExpr::apply(Op::mul, SizeExpr::apply(Op::ceil_div, bytes, kBlockAlignment), kBlockAlignment);
}

SizeExpr larger_of(const SizeExpr& a, const SizeExpr& b) {
  const auto is_zero = [](const SizeExpr& e) { return e == SizeExpr(std::int64_t{0}); };
  if (a == b || is_zero(b)) return a;
  if (is_zero(a)) return b;
  return SizeExpr::apply(Op::max, a, b);
}

SizeExpr span_bytes(const std::vector<SizeExpr>& shape, const std::vector<SizeExpr>& strides, DType dtype) {
  SizeExpr last = 0;  // element offset of the last element
  for (std::size_t i = 0; i < shape.size(); ++i) {
    // At least 0: a dimension without elements must not take from the others.
    const SizeExpr steps = SizeExpr::apply(Op::max, SizeExpr::apply(Op::sub, shape[i], 1), 0);
    last = SizeExpr::apply(Op::add, last, SizeExpr::apply(Op::mul, steps, strides[i]));
  }
  return SizeExpr::apply(Op::mul, SizeExpr::apply(Op::add, last, 1), size_bytes(dtype));
}

SizeExpr move_symbols(const SizeExpr& expr, const std::vector<std::int32_t>& positions) {
  std::string moved;
  const std::string text = expr.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool symbol = word.size() > 1 && word[0] == 's' && word[1] >= '0' && word[1] <= '9';
    if (!moved.empty()) moved += ' ';
    moved += symbol ? "s" + std::to_string(positions.at(std::stoul(word.substr(1)))) : word;
    at = end + 1;
  }
  return SizeExpr::parse(moved).value();
}

ArenaLayout lay_out(const std::vector<Block>& blocks, const std::vector<Symbol>& symbols) {
  std::vector<std::int64_t> upper;
  for (const Symbol& symbol : symbols) upper.push_back(symbol.hi);
  std::vector<std::int64_t> size;
  for (const Block& block : blocks) size.push_back(block.bytes.evaluate(upper.data()));
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return size[a] != size[b] ? size[a] > size[b] : a < b; });

  ArenaLayout layout;
  layout.slot_of.assign(blocks.size(), -1);
  std::vector<std::vector<std::size_t>> members;
  for (const std::size_t b : order) {
    std::size_t slot = 0;
    const auto taken = [&](std::size_t other) { return lives_overlap(blocks[b], blocks[other]); };
    while (slot < members.size() && std::any_of(members[slot].begin(), members[slot].end(), taken)) ++slot;
    if (slot == members.size()) {
      members.emplace_back();
      layout.slot_bytes.emplace_back(std::int64_t{0});
    }
    members[slot].push_back(b);
    layout.slot_of[b] = static_cast<std::int32_t>(slot);
    layout.slot_bytes[slot] = larger_of(layout.slot_bytes[slot], round_to_block(blocks[b].bytes));
  }
  return layout;
}

}  // namespace loopwright::runtime
