#include "src/ir/linear.h"

#include <algorithm>
#include <bit>

namespace loopwright::ir {
namespace {

/// Products of sums are multiplied out up to this many terms; larger ones stay factors.
constexpr std::size_t kMaxTerms = 24;

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return order(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const int c = compare(a[i], b[i]); c != 0) return c;
  return 0;
}

/// Variables before everything else, literals last.
int rank(const Expr& e) {
  if (as<VarRef>(e)) return -1;
  if (as<IntImm>(e) || as<FloatImm>(e)) return 100;
  return static_cast<int>(e->v.index());
}

struct Order {
  int operator()(const IntImm& a, const IntImm& b) const { return order(a.value, b.value); }
  int operator()(const FloatImm& a, const FloatImm& b) const {
    return order(std::bit_cast<std::uint64_t>(a.value), std::bit_cast<std::uint64_t>(b.value));
  }
  int operator()(const VarRef& a, const VarRef& b) const { return order(a.var.id, b.var.id); }
  int operator()(const Unary& a, const Unary& b) const {
    return a.op != b.op ? order(a.op, b.op) : compare(a.a, b.a);
  }
  int operator()(const Binary& a, const Binary& b) const {
    return a.op != b.op ? order(a.op, b.op) : compare_all({a.a, a.b}, {b.a, b.b});
  }
  int operator()(const Select& a, const Select& b) const {
    return compare_all({a.condition, a.a, a.b}, {b.condition, b.a, b.b});
  }
  int operator()(const Cast& a, const Cast& b) const { return compare(a.a, b.a); }
  int operator()(const Load& a, const Load& b) const {
    if (a.buffer == b.buffer) return compare_all(a.index, b.index);
    const int by_name = order(a.buffer->name, b.buffer->name);
    return by_name != 0 ? by_name : order(a.buffer, b.buffer);
  }
};

}  // namespace

int compare(const Expr& a, const Expr& b) {
  if (a == b) return 0;
  if (const int c = order(rank(a), rank(b)); c != 0) return c;
  if (const int c = order(a->v.index(), b->v.index()); c != 0) return c;
  if (const int c = order(a->dtype, b->dtype); c != 0) return c;
  return std::visit([&b](const auto& x) { return Order{}(x, std::get<std::decay_t<decltype(x)>>(b->v)); },
                    a->v);
}

bool MonomialLess::operator()(const Monomial& a, const Monomial& b) const {
  // The constant sorts last; otherwise factor by factor, so that terms of one loop stand where the loop stands.
  if (a.empty() || b.empty()) return !a.empty() && b.empty();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const int c = compare(a[i], b[i]); c != 0) return c < 0;
  return a.size() < b.size();
}

void Linear::add(const Monomial& m, std::int64_t coefficient) {
  const auto it = terms_.try_emplace(m, 0).first;
  it->second = wrapping_add(it->second, coefficient);
  if (it->second == 0) terms_.erase(it);
}

void Linear::add(const Linear& other, std::int64_t factor) {
  for (const auto& [m, c] : other.terms_) add(m, wrapping_mul(c, factor));
}

Linear Linear::times(std::int64_t factor) const {
  Linear out;
  out.add(*this, factor);
  return out;
}

Linear Linear::times(const Linear& other) const {
  Linear out;
  for (const auto& [ma, ca] : terms_) {
    for (const auto& [mb, cb] : other.terms_) {
      Monomial m;
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m),
                 [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
      out.add(m, wrapping_mul(ca, cb));
    }
  }
  return out;
}

std::int64_t Linear::coefficient(const Monomial& m) const {
  const auto it = terms_.find(m);
  return it == terms_.end() ? 0 : it->second;
}

bool Linear::is_atom() const {
  return terms_.size() == 1 && terms_.begin()->first.size() == 1 && terms_.begin()->second == 1;
}

std::vector<Expr> Linear::factors() const {
  std::vector<Expr> out;
  for (const auto& [m, c] : terms_)
    for (const Expr& f : m)
      if (std::none_of(out.begin(), out.end(), [&](const Expr& o) { return compare(o, f) == 0; }))
        out.push_back(f);
  return out;
}

Linear Linear::from(const Expr& e) {
  Linear out;
  if (const auto value = as_int(e)) {
    out.add(Monomial{}, *value);
    return out;
  }
  if (const auto* u = as<Unary>(e); u && u->op == UnaryOp::neg) return from(u->a).times(-1);
  if (const auto* b = as<Binary>(e)) {
    if (b->op == BinaryOp::add || b->op == BinaryOp::sub) {
      out = from(b->a);
      out.add(from(b->b), b->op == BinaryOp::add ? 1 : -1);
      return out;
    }
    if (b->op == BinaryOp::mul) {
      const Linear x = from(b->a), y = from(b->b);
      if (x.terms_.size() * y.terms_.size() <= kMaxTerms) return x.times(y);
    }
  }
  out.add(Monomial{e}, 1);
  return out;
}

Expr product(const Monomial& m) {
  Expr out = m.at(0);
  for (std::size_t i = 1; i < m.size(); ++i) out = out * m[i];
  return out;
}

Monomial without(const Monomial& m, const Expr& factor) {
  Monomial out;
  bool removed = false;
  for (const Expr& f : m) {
    if (!removed && compare(f, factor) == 0) removed = true;
    else out.push_back(f);
  }
  return out;
}

Expr Linear::expr() const {
  std::vector<std::pair<const Monomial*, std::int64_t>> list;
  for (const auto& [m, c] : terms_) list.emplace_back(&m, c);
  if (list.empty()) return int_imm(0);
  const auto positive = std::find_if(list.begin(), list.end(), [](const auto& t) { return t.second > 0; });
  if (positive != list.end()) std::rotate(list.begin(), positive, positive + 1);
  Expr sum;
  for (const auto& [m, c] : list) {
    const bool negative = c < 0 && c != INT64_MIN;
    const std::int64_t magnitude = negative ? -c : c;
    Expr term = m->empty() ? int_imm(magnitude) : product(*m);
    if (!m->empty() && magnitude != 1) term = term * int_imm(magnitude);
    if (!sum) sum = negative ? unary(UnaryOp::neg, term) : term;
    else sum = negative ? sum - term : sum + term;
  }
  return sum;
}

bool Linear::operator==(const Linear& other) const {
  return std::equal(terms_.begin(), terms_.end(), other.terms_.begin(), other.terms_.end(),
                    [](const auto& a, const auto& b) {
                      return a.second == b.second && a.first.size() == b.first.size() &&
                             std::equal(a.first.begin(), a.first.end(), b.first.begin(),
                                        [](const Expr& x, const Expr& y) { return compare(x, y) == 0; });
                    });
}

}  // namespace loopwright::ir
