// Walking and rebuilding trees. `map_children` is the only function that knows where the children of a node are.
// Shape and strides of an allocated buffer are not children of its Alloc (a buffer's identity is its pointer);
// `substitute`, `clone_bindings`, `free_vars` and `uses` take them into account all the same.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "src/ir/kernel.h"
#include "src/ir/nodes.h"

namespace loopwright::ir {

/// A node with every direct child replaced; the same pointer when nothing changed. New nodes come from the builders, so
/// constants fold.
Expr map_children(const Expr& e, const std::function<Expr(const Expr&)>& f);
Stmt map_children(const Stmt& s, const std::function<Expr(const Expr&)>& fe,
                  const std::function<Stmt(const Stmt&)>& fs);

/// Bottom-up rewriting with sharing kept: each distinct node is visited once. `f` gets a node whose children are done
/// and returns its replacement (the node itself for no change).
Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& f);
Stmt rewrite(const Stmt& s, const std::function<Expr(const Expr&)>& fe,
             const std::function<Stmt(const Stmt&)>& fs);

/// Calls `f` on every distinct node, parents first.
void walk(const Expr& e, const std::function<void(const Expr&)>& f);
void walk(const Stmt& s, const std::function<void(const Stmt&)>& fs,
          const std::function<void(const Expr&)>& fe);

Expr substitute(const Expr& e, const std::map<Var, Expr>& values);
Stmt substitute(const Stmt& s, const std::map<Var, Expr>& values);
/// Replaces buffers everywhere they are named (loads, stores, updates, allocs).
Stmt replace_buffers(const Stmt& s, const std::map<Buffer, Buffer>& buffers);
/// The same in an expression.
Expr replace_buffers(const Expr& e, const std::map<Buffer, Buffer>& buffers);
/// A copy of `s` whose bound variables (Loop, Let) and allocated buffers are fresh.
Stmt clone_bindings(const Stmt& s);

std::set<Var> free_vars(const Expr& e);
std::set<Var> free_vars(const Stmt& s);
bool uses(const Expr& e, const Var& v);
bool uses(const Stmt& s, const Var& v);
/// Reads memory somewhere: its value may change between two evaluations.
bool has_load(const Expr& e);
/// The parts of a condition that all have to hold, appended to `out`.
void take_conjuncts(const Expr& e, std::vector<Expr>& out);
/// Position of an element among all of a dense buffer, the last dimension innermost.
Expr linear_position(const BufferInfo& buffer, const std::vector<Expr>& index);
/// Buffers loaded from and written to, in order of first appearance.
struct Accesses {
  std::vector<Buffer> read, written;
};
Accesses buffers_of(const Stmt& s);

}  // namespace loopwright::ir
