#include "tuner/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "src/ir/row_groups.h"
#include "tuner/parallel.h"

namespace loopwright::tuner {
namespace {

/// SplitMix64: one state word, good bits, the same on every machine.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

float from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  float value = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                : exponent == 31 ? (fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                                                  : std::numeric_limits<float>::infinity())
                                 : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

std::uint16_t to_half(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(magnitude * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto rounded = static_cast<int>(std::nearbyint(fraction * 2048));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + rounded - 1024));
}

std::uint16_t to_bfloat(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T>
T load_as(const void* data, std::int64_t position) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + position * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store_as(void* data, std::int64_t position, T value) {
  std::memcpy(static_cast<char*>(data) + position * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

double read_element(DType dtype, const void* data, std::int64_t position) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return load_as<std::uint8_t>(data, position);
    case DType::i8: return load_as<std::int8_t>(data, position);
    case DType::i16: return load_as<std::int16_t>(data, position);
    case DType::i32: return load_as<std::int32_t>(data, position);
    case DType::i64: return static_cast<double>(load_as<std::int64_t>(data, position));
    case DType::f16: return from_half(load_as<std::uint16_t>(data, position));
    case DType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load_as<std::uint16_t>(data, position)) << 16);
    case DType::f32: return load_as<float>(data, position);
    case DType::f64: return load_as<double>(data, position);
  }
  return 0;
}

void write_element(DType dtype, void* data, std::int64_t position, double value) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return store_as(data, position, static_cast<std::uint8_t>(value));
    case DType::i8: return store_as(data, position, static_cast<std::int8_t>(value));
    case DType::i16: return store_as(data, position, static_cast<std::int16_t>(value));
    case DType::i32: return store_as(data, position, static_cast<std::int32_t>(value));
    case DType::i64: return store_as(data, position, static_cast<std::int64_t>(value));
    case DType::f16: return store_as(data, position, to_half(value));
    case DType::bf16: return store_as(data, position, to_bfloat(value));
    case DType::f32: return store_as(data, position, static_cast<float>(value));
    case DType::f64: return store_as(data, position, value);
  }
}

namespace {

void fill_part(DType dtype, void* data, std::int64_t begin, std::int64_t end, Draw draw, Random random, const IntegerRange* range) {
  if (is_float(dtype)) {
    for (std::int64_t i = begin; i < end; ++i) {
      double value = 0.125 + 0.875 * random.unit();
      if (draw == Draw::normal) {
        // The sum of four uniform numbers is as good as normal here, and much cheaper than the real thing.
        const double sum = random.unit() + random.unit() + random.unit() + random.unit();
        value = 0.25 + (sum - 2) * 1.7320508075688772;
      }
      write_element(dtype, data, i, value);
    }
    return;
  }
  IntegerRange use{dtype == DType::boolean || dtype == DType::u8 ? 0 : -9, dtype == DType::boolean ? 2 : 10};
  if (range != nullptr) use = *range;
  const auto width = static_cast<std::uint64_t>(std::max<std::int64_t>(use.hi - use.lo, 1));
  for (std::int64_t i = begin; i < end; ++i) {
    write_element(dtype, data, i, static_cast<double>(use.lo + static_cast<std::int64_t>(random.next() % width)));
  }
}

void fill_ends(DType dtype, void* data, std::int64_t count, Random random, std::int64_t rows) {
  std::vector<double> until;
  double all = 0;
  for (std::int64_t i = 0; i < count; ++i) until.push_back(all += random.unit());
  for (std::int64_t i = 0; i < count; ++i)
    write_element(dtype, data, i, std::floor(i + 1 == count ? static_cast<double>(rows) : until[i] / all * static_cast<double>(rows)));
}

}  // namespace

void fill_random(DType dtype, void* data, std::int64_t count, Draw draw, std::uint64_t seed, const IntegerRange* range) {
  if (range != nullptr && range->ends) return fill_ends(dtype, data, count, Random{seed * 0x9e3779b97f4a7c15ull + 1}, range->hi - 1);
  // Each part has a sequence of its own, so that the values depend on no number of threads.
  for_each_part(count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    const std::uint64_t mixed = seed ^ (static_cast<std::uint64_t>(part) << 40);
    fill_part(dtype, data, begin, end, draw, Random{mixed * 0x9e3779b97f4a7c15ull + 1}, range);
  });
}

void fill_poison(DType dtype, void* data, std::int64_t bytes, bool second) {
  std::memset(data, is_float(dtype) != second ? 0xff : 0xaa, static_cast<std::size_t>(bytes));
}

// ---------------------------------------------------------------- index ranges

namespace {

/// Finds which buffers feed which indices. A kernel's buffers are few, so sets are carried about freely.
class IndexFlow {
 public:
  IndexFlow(const ir::Kernel& kernel, const Bindings& probe) : kernel_(kernel), probe_(probe) {}

  std::map<std::string, IntegerRange> find() {
    walk(kernel_.body);
    std::map<std::string, IntegerRange> found;
    for (const auto& [buffer, extent] : limits_) spread(buffer, extent, found, 0);
    for (const ir::RowGroups& g : ir::find_row_groups(kernel_.body))
      for (const ir::Param& p : kernel_.params)
        if (p.buffer == g.offsets) found[p.buffer->name] = {0, evaluate(g.rows) + 1, true};
    return found;
  }

 private:
  std::int64_t evaluate(const ir::Expr& e) const {
    const auto size = ir::to_size_expr(e, kernel_.symbols);
    if (!size) return 0;
    std::vector<std::int64_t> values;
    for (const ir::SymbolParam& s : kernel_.symbols) {
      const auto at = probe_.find(s.symbol.name);
      values.push_back(at == probe_.end() ? s.symbol.lo : at->second);
    }
    return size->evaluate(values.data());
  }

  /// Integer buffers that are loaded in `e`, through bound variables too.
  void collect(const ir::Expr& e, std::set<std::string>& into) {
    std::visit(ir::on{[](const ir::IntImm&) {}, [](const ir::FloatImm&) {},
                      [&](const ir::VarRef& v) {
                        if (const auto bound = bound_.find(v.var.id); bound != bound_.end()) {
                          into.insert(bound->second.begin(), bound->second.end());
                        }
                      },
                      [&](const ir::Unary& u) { collect(u.a, into); },
                      [&](const ir::Binary& b) { collect(b.a, into), collect(b.b, into); },
                      [&](const ir::Select& s) { collect(s.a, into), collect(s.b, into); },
                      [&](const ir::Cast& c) { collect(c.a, into); },
                      [&](const ir::Load& l) {
                        if (is_integer(l.buffer->dtype)) into.insert(l.buffer->name);
                      }},
               e->v);
  }

  void limit(const ir::Buffer& buffer, const std::vector<ir::Expr>& index) {
    for (std::size_t d = 0; d < index.size() && d < buffer->shape.size(); ++d) {
      std::set<std::string> feeding;
      collect(index[d], feeding);
      const std::int64_t extent = evaluate(buffer->shape[d]);
      for (const std::string& f : feeding) {
        auto [at, fresh] = limits_.try_emplace(f, extent);
        if (!fresh) at->second = std::min(at->second, extent);
      }
    }
  }

  void walk_expr(const ir::Expr& e) {
    std::visit(ir::on{[](const ir::IntImm&) {}, [](const ir::FloatImm&) {}, [](const ir::VarRef&) {},
                      [&](const ir::Unary& u) { walk_expr(u.a); },
                      [&](const ir::Binary& b) { walk_expr(b.a), walk_expr(b.b); },
                      [&](const ir::Select& s) { walk_expr(s.condition), walk_expr(s.a), walk_expr(s.b); },
                      [&](const ir::Cast& c) { walk_expr(c.a); },
                      [&](const ir::Load& l) {
                        limit(l.buffer, l.index);
                        for (const ir::Expr& i : l.index) walk_expr(i);
                      }},
               e->v);
  }

  void note_write(const std::vector<ir::Buffer>& buffers, const std::vector<ir::Expr>& index,
                  const std::vector<ir::Expr>& values) {
    std::set<std::string> feeding;
    for (const ir::Expr& v : values) walk_expr(v), collect(v, feeding);
    for (const ir::Buffer& b : buffers) {
      limit(b, index);
      if (is_integer(b->dtype)) sources_[b->name].insert(feeding.begin(), feeding.end());
    }
    for (const ir::Expr& i : index) walk_expr(i);
  }

  void walk(const ir::Stmt& s) {
    std::visit(ir::on{[&](const ir::Loop& l) { walk(l.body); },
                      [&](const ir::Store& st) { note_write({st.buffer}, st.index, {st.value}); },
                      [&](const ir::Update& u) { note_write(u.buffers, u.index, u.values); },
                      [&](const ir::If& i) { walk_expr(i.condition), walk(i.then); },
                      [&](const ir::Let& l) {
                        walk_expr(l.value);
                        collect(l.value, bound_[l.var.id]);
                        walk(l.body);
                      },
                      [&](const ir::Alloc& a) { walk(a.body); },
                      [&](const ir::Seq& q) {
                        for (const ir::Stmt& item : q.items) walk(item);
                      }},
               s->v);
  }

  /// A limit on an intermediate is a limit on what it was computed from.
  void spread(const std::string& buffer, std::int64_t extent, std::map<std::string, IntegerRange>& found, int depth) {
    for (const ir::Param& p : kernel_.params) {
      if (p.buffer->name != buffer || p.role == ArgRole::output) continue;
      auto [at, fresh] = found.try_emplace(buffer, IntegerRange{0, extent});
      if (!fresh) at->second.hi = std::min(at->second.hi, extent);
      return;
    }
    if (depth > 32) return;
    for (const std::string& source : sources_[buffer]) {
      if (source != buffer) spread(source, extent, found, depth + 1);
    }
  }

  const ir::Kernel& kernel_;
  const Bindings& probe_;
  std::map<std::string, std::int64_t> limits_;             // buffer → smallest extent it indexes
  std::map<std::string, std::set<std::string>> sources_;   // integer buffer → integer buffers in its values
  std::map<std::uint32_t, std::set<std::string>> bound_;   // variable of a Let → integer buffers in its value
};

}  // namespace

std::map<std::string, IntegerRange> find_index_ranges(const ir::Kernel& naive, const Bindings& probe) {
  return IndexFlow(naive, probe).find();
}

}  // namespace loopwright::tuner
