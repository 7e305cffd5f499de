#include "src/schedule/site.h"

#include <functional>

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

namespace {

std::vector<Stmt> children_of(const Stmt& s) {
  return std::visit(ir::on{[](const ir::Loop& x) { return std::vector<Stmt>{x.body}; },
                           [](const ir::Store&) { return std::vector<Stmt>{}; },
                           [](const ir::Update&) { return std::vector<Stmt>{}; },
                           [](const ir::If& x) { return std::vector<Stmt>{x.then}; },
                           [](const ir::Let& x) { return std::vector<Stmt>{x.body}; },
                           [](const ir::Alloc& x) { return std::vector<Stmt>{x.body}; },
                           [](const ir::Seq& x) { return x.items; }},
                    s->v);
}

bool find(const Stmt& s, const std::function<bool(const Stmt&)>& wanted, std::vector<Stmt>& path) {
  path.push_back(s);
  if (wanted(s)) return true;
  for (const Stmt& child : children_of(s))
    if (find(child, wanted, path)) return true;
  path.pop_back();
  return false;
}

std::optional<Site> find(const ir::Kernel& k, const std::function<bool(const Stmt&)>& wanted) {
  Site site;
  if (!find(k.body, wanted, site.path)) return std::nullopt;
  return site;
}

}  // namespace

std::optional<Site> find_loop(const ir::Kernel& k, const std::string& name) {
  return find(k, [&](const Stmt& s) {
    const auto* l = as<ir::Loop>(s);
    return l && l->var.hint == name;
  });
}

std::optional<Site> find_stmt(const ir::Kernel& k, const Stmt& wanted) {
  return find(k, [&](const Stmt& s) { return s == wanted; });
}

std::optional<Site> find_alloc(const ir::Kernel& k, const std::string& name) {
  return find(k, [&](const Stmt& s) {
    const auto* a = as<ir::Alloc>(s);
    return a && a->buffer->name == name;
  });
}

ir::Buffer find_buffer(const ir::Kernel& k, const std::string& name) {
  for (const ir::Param& p : k.params)
    if (p.buffer->name == name) return p.buffer;
  const auto site = find_alloc(k, name);
  return site ? as<ir::Alloc>(site->stmt())->buffer : nullptr;
}

bool is_param(const ir::Kernel& k, const ir::Buffer& buffer) {
  for (const ir::Param& p : k.params)
    if (p.buffer == buffer) return true;
  return false;
}

Stmt edit(const Stmt& s, const Edits& edits) {
  if (const auto it = edits.find(s.get()); it != edits.end()) return it->second;
  return ir::map_children(
      s, [](const ir::Expr& e) { return e; }, [&](const Stmt& child) { return edit(child, edits); });
}

ir::Kernel edit(const ir::Kernel& k, const Edits& edits) {
  ir::Kernel out = k;
  out.body = edit(k.body, edits);
  return out;
}

Stmt drop_allocs(const Stmt& s, const std::vector<ir::Buffer>& buffers) {
  if (const auto* a = as<ir::Alloc>(s))
    for (const ir::Buffer& b : buffers)
      if (a->buffer == b) return drop_allocs(a->body, buffers);
  return ir::map_children(
      s, [](const ir::Expr& e) { return e; }, [&](const Stmt& child) { return drop_allocs(child, buffers); });
}

void enter(ir::Facts& facts, const Stmt& s) {
  if (const auto* l = as<ir::Loop>(s)) facts.bind_loop(l->var, l->extent);
  if (const auto* i = as<ir::If>(s)) facts.assume(i->condition);
}

ir::Facts facts_before(const ir::Kernel& k, const Site& at) {
  ir::Facts facts(k);
  for (std::size_t i = 0; i + 1 < at.path.size(); ++i) enter(facts, at.path[i]);
  return facts;
}

ir::Facts facts_inside(const ir::Kernel& k, const Site& at) {
  ir::Facts facts = facts_before(k, at);
  enter(facts, at.stmt());
  return facts;
}

Names::Names(const ir::Kernel& k) {
  for (const ir::Param& p : k.params) used_.insert(p.buffer->name);
  for (const ir::SymbolParam& s : k.symbols) used_.insert(s.var.hint);
  ir::walk(
      k.body,
      [&](const Stmt& s) {
        if (const auto* l = as<ir::Loop>(s)) used_.insert(l->var.hint);
        if (const auto* l = as<ir::Let>(s)) used_.insert(l->var.hint);
        if (const auto* a = as<ir::Alloc>(s)) used_.insert(a->buffer->name);
      },
      [](const ir::Expr&) {});
}

std::string Names::take(const std::string& base) {
  std::string name = base;
  for (int n = 2; !used_.insert(name).second; ++n) name = base + "_" + std::to_string(n);
  return name;
}

Chain chain_of(const Stmt& s) {
  Chain chain;
  Stmt at = s;
  while (true) {
    Stmt next;
    if (const auto* l = as<ir::Loop>(at)) next = l->body;
    if (const auto* i = as<ir::If>(at)) next = i->then;
    if (const auto* l = as<ir::Let>(at)) next = l->body;
    if (!next) break;
    chain.around.push_back(at);
    at = next;
  }
  chain.leaf = at;
  return chain;
}

Stmt with_body(const Stmt& around, Stmt body) {
  return ir::map_children(around, [](const ir::Expr& e) { return e; }, [&](const Stmt&) { return body; });
}

Stmt wrap(const std::vector<Stmt>& around, Stmt leaf) {
  for (auto it = around.rbegin(); it != around.rend(); ++it) leaf = with_body(*it, std::move(leaf));
  return leaf;
}

std::vector<Stmt> items_of(const Stmt& s) {
  if (const auto* q = as<ir::Seq>(s)) return q->items;
  return {s};
}

Stmt under_allocs(const Stmt& s, std::vector<ir::Buffer>& allocs) {
  Stmt at = s;
  while (const auto* a = as<ir::Alloc>(at)) {
    allocs.push_back(a->buffer);
    at = a->body;
  }
  return at;
}

}  // namespace loopwright::schedule
