#include "src/codegen/cuda/slots.h"

#include <algorithm>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Stmt;

constexpr std::int64_t kMostWordsOfThread = 8;  ///< all of them are asked for before the first is waited for

bool contains(const std::vector<ir::Buffer>& list, const ir::Buffer& b) { return std::find(list.begin(), list.end(), b) != list.end(); }

/// Counts the writes of `buffer`, and those that are stores at `block` which happen once.
struct Writes {
  int all = 0, once = 0;
};
void count_writes(const Stmt& s, const ir::Buffer& buffer, const ir::Var& block, bool certain, Writes& out) {
  if (const auto* x = ir::as<ir::Store>(s); x != nullptr && x->buffer == buffer) {
    const auto* at = x->index.size() == 1 ? ir::as<ir::VarRef>(x->index[0]) : nullptr;
    ++out.all;
    if (certain && at != nullptr && at->var == block) ++out.once;
  }
  if (const auto* u = ir::as<ir::Update>(s)) out.all += static_cast<int>(contains(u->buffers, buffer));
  const bool stays = certain && ir::as<ir::Loop>(s) == nullptr && ir::as<ir::If>(s) == nullptr;
  ir::map_children(s, [](const ir::Expr& e) { return e; }, [&](const Stmt& child) {
    count_writes(child, buffer, block, stays, out);
    return child;
  });
}

}  // namespace

std::vector<ir::Buffer> find_slots(const Region& region, const BlockShape& block) {
  if (!region.last || region.last->per_column || !region.grid[0] || region.grid[1] || region.grid[2]) return {};
  const auto count = ir::as_int(region.grid[0]->extent);
  if (!count || *count > block.threads() * kMostWordsOfThread || ir::as_int(region.last->extent) != 1) return {};
  const ir::Accesses before = ir::buffers_of(region.body), after = ir::buffers_of(region.last->body);
  for (const ir::Buffer& b : after.written)
    if (b->memory == ir::Memory::global && (contains(before.read, b) || contains(before.written, b))) return {};
  std::vector<ir::Buffer> out;
  for (const ir::Buffer& b : after.read) {
    if (!contains(before.written, b)) continue;
    Writes writes;
    count_writes(region.body, b, region.grid[0]->var, true, writes);
    const bool fits = (b->dtype == DType::f32 || b->dtype == DType::i32) && b->shape.size() == 1 && ir::as_int(b->shape[0]) == *count &&
                      writes.all == 1 && writes.once == 1 && !contains(before.read, b);
    if (!fits) return {};
    out.push_back(b);
  }
  return out;
}

std::string to_bits(const std::string& value, DType dtype) {
  return dtype == DType::f32 ? "__float_as_uint(" + value + ")" : "(unsigned)" + value;
}

std::string take_words(const std::string& words, const std::string& into, DType dtype, std::int64_t count, const BlockShape& block) {
  const std::int64_t threads = block.threads(), rounds = (count + threads - 1) / threads;
  const std::string me = block.y > 1 ? "threadIdx.y * " + std::to_string(block.x) + " + threadIdx.x" : "threadIdx.x";
  std::string asks, takes;
  for (std::int64_t i = 0; i < rounds; ++i) {
    const std::string n = std::to_string(i), at = "me + " + std::to_string(i * threads);
    const std::string mine = (i + 1) * threads <= count ? "" : "if (" + at + " < " + std::to_string(count) + ") ";
    const std::string bits = "lw_take(&" + words + "[" + at + "], seen" + n + ")";
    asks += "    unsigned long long seen" + n + " = 0;\n    " + mine + "seen" + n + " = lw_peek(&" + words + "[" + at + "]);\n";
    takes += "    " + mine + into + "[" + at + "] = " + (dtype == DType::f32 ? "__uint_as_float(" + bits + ")" : "(int)" + bits) + ";\n";
  }
  return "  {\n    const unsigned me = " + me + ";\n" + asks + takes + "  }\n";
}

}  // namespace loopwright::codegen
