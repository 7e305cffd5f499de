// Where a statement stands in a kernel, and replacing it there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/ir/kernel.h"
#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"

namespace loopwright::schedule {

/// A statement with everything around it: the kernel's body first, the statement last.
struct Site {
  std::vector<ir::Stmt> path;
  const ir::Stmt& stmt() const { return path.back(); }
  /// The statement as the loop that it is.
  const ir::Loop& loop() const { return std::get<ir::Loop>(stmt()->v); }
};

std::optional<Site> find_loop(const ir::Kernel& k, const std::string& name);
std::optional<Site> find_stmt(const ir::Kernel& k, const ir::Stmt& s);
/// The Alloc of the intermediate of that name.
std::optional<Site> find_alloc(const ir::Kernel& k, const std::string& name);
/// A parameter or intermediate; null when there is none.
ir::Buffer find_buffer(const ir::Kernel& k, const std::string& name);
bool is_param(const ir::Kernel& k, const ir::Buffer& buffer);

/// `s` with whole subtrees replaced by identity; replacements are not entered. An empty Seq removes.
using Edits = std::map<const ir::StmtNode*, ir::Stmt>;
ir::Stmt edit(const ir::Stmt& s, const Edits& edits);
ir::Kernel edit(const ir::Kernel& k, const Edits& edits);
/// Takes the Allocs of these buffers away, leaving their bodies.
ir::Stmt drop_allocs(const ir::Stmt& s, const std::vector<ir::Buffer>& buffers);

/// What is known in front of the statement, from the kernel's guard and everything around it.
ir::Facts facts_before(const ir::Kernel& k, const Site& at);
/// What is known inside the loop (condition, ...) itself too.
ir::Facts facts_inside(const ir::Kernel& k, const Site& at);
/// Adds what a statement says about its inside: the range of a loop, the condition of an If.
void enter(ir::Facts& facts, const ir::Stmt& s);

/// Names that the kernel uses for loops, Lets, buffers and symbols.
class Names {
 public:
  explicit Names(const ir::Kernel& k);
  /// `base`, or `base_2`, `base_3`, ... where it is taken; taken from then on.
  std::string take(const std::string& base);
  /// A fresh variable under such a name.
  ir::Var var(const std::string& base) { return ir::fresh_var(take(base)); }

 private:
  std::set<std::string> used_;
};

/// A nest without choices: loops, conditions and Lets in each other, then one other statement.
struct Chain {
  std::vector<ir::Stmt> around;  ///< Loop, If, Let, outermost first
  ir::Stmt leaf;
};
Chain chain_of(const ir::Stmt& s);
/// The chain's statement again, with another leaf.
ir::Stmt wrap(const std::vector<ir::Stmt>& around, ir::Stmt leaf);
/// One of these around `body`: same kind, other inside.
ir::Stmt with_body(const ir::Stmt& around, ir::Stmt body);
/// Items of a Seq; a single statement is one item.
std::vector<ir::Stmt> items_of(const ir::Stmt& s);
/// Allocs in front, so that what they enclose can be edited as a list: `s` = allocs around `rest`.
ir::Stmt under_allocs(const ir::Stmt& s, std::vector<ir::Buffer>& allocs);

}  // namespace loopwright::schedule
