#include "src/lower/copies.h"

#include <set>
#include <unordered_map>

#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::Stmt;

class Namer {
 public:
  explicit Namer(const ir::Kernel& kernel) {
    for (const ir::Param& p : kernel.params) taken_.insert(p.buffer->name);
    for (const ir::SymbolParam& s : kernel.symbols) taken_.insert(s.symbol.name);
  }

  Stmt apply(const Stmt& s) {
    ir::walk(s, [&](const Stmt& x) {
      if (const auto* a = ir::as<ir::Alloc>(x)) rename(a->buffer);
    }, [](const ir::Expr&) {});
    return renamed_.empty() ? s : ir::replace_buffers(s, renamed_);
  }

 private:
  void rename(const ir::Buffer& buffer) {
    if (taken_.insert(buffer->name).second) return;
    ir::BufferInfo info = *buffer;
    int& number = last_[buffer->name];
    do info.name = buffer->name + "_" + std::to_string(++number);
    while (!taken_.insert(info.name).second);
    renamed_[buffer] = std::make_shared<const ir::BufferInfo>(std::move(info));
  }

  std::set<std::string> taken_;
  std::unordered_map<std::string, int> last_;
  std::map<ir::Buffer, ir::Buffer> renamed_;
};

}  // namespace

ir::Kernel make_names_unique(const ir::Kernel& kernel) {
  ir::Kernel out = kernel;
  out.body = Namer(kernel).apply(kernel.body);
  return out;
}

std::int64_t count_statements(const Stmt& s) {
  return std::visit(ir::on{[](const ir::Loop& l) { return 1 + count_statements(l.body); }, [](const ir::Store&) { return std::int64_t{1}; },
                           [](const ir::Update&) { return std::int64_t{1}; }, [](const ir::If& i) { return 1 + count_statements(i.then); },
                           [](const ir::Let& l) { return 1 + count_statements(l.body); },
                           [](const ir::Alloc& a) { return count_statements(a.body); },
                           [](const ir::Seq& q) {
                             std::int64_t sum = 0;
                             for (const Stmt& item : q.items) sum += count_statements(item);
                             return sum;
                           }},
                    s->v);
}

}  // namespace loopwright::lower
