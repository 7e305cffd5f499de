// A box of a buffer as a buffer of its own: the smaller buffer, its accesses, the loops and conditions of a copy.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/schedule/region.h"
#include "src/schedule/rejection.h"
#include "src/schedule/step_text.h"

namespace loopwright::schedule {

/// The index in the other buffer, from the old one and what is known at the access.
using IndexMap = std::function<std::vector<ir::Expr>(const std::vector<ir::Expr>&, const ir::Facts&)>;

/// Loads, stores and updates of the keys of `buffers` go to the values, with another index. `facts` holds before `s`.
ir::Stmt redirect(const ir::Stmt& s, const ir::Facts& facts, const std::map<ir::Buffer, ir::Buffer>& buffers,
                  const IndexMap& index);
/// index - base in every dimension.
IndexMap relative_to(const Region& region);

/// A buffer like `of` with another name, shape and place. With Place::registers or fragment the shape must be
/// constant and small (see the limits in tile.cpp), or `code` is the answer.
Result<ir::Buffer> make_local(const ir::Buffer& of, std::string name, std::vector<ir::Expr> shape,
                              Place place, ErrorCode code);
std::vector<ir::Expr> extents_of(const Region& region);
/// alloc(b1, alloc(b2, .. body)).
ir::Stmt alloc_all(const std::vector<ir::Buffer>& buffers, ir::Stmt body);

/// A copy to shared memory in front of the rest of a loop's body, as stage makes it.
struct StagedCopy {
  ir::Buffer buffer;
  ir::Stmt copy;
};
/// Those of a body, taken off it with their Allocs.
std::vector<StagedCopy> take_copies(ir::Stmt& body);

/// Conditions under which the element base + t of the box is accessed: those around the access, said of the position in
/// the box, and the buffer's bounds where the box exceeds them. What is proved is left out. Empty when a condition says
/// something else of an index.
std::optional<std::vector<ir::Expr>> conditions_of(const Access& access, const Region& region,
                                                   const std::vector<ir::Var>& t, const ir::Facts& facts);
/// True when nothing but the conditions that `conditions_of` gives keeps the access from happening: no condition on loops
/// that do not index, and no such loop that may be empty.
bool is_certain(const Access& access, const ir::Facts& facts);
/// Conditions that keep base + t inside the buffer.
std::vector<ir::Expr> bounds_of(const ir::Buffer& buffer, const Region& region, const std::vector<ir::Var>& t,
                                const ir::Facts& facts);
/// All of them; null when there are none.
ir::Expr conjunction(const std::vector<ir::Expr>& conditions);

/// True when a store before `reader` (a statement inside the Alloc's body) writes every element of the allocated buffer,
/// whatever the conditions. `k` and the site of the Alloc give the facts.
bool is_fully_written(const ir::Kernel& k, const Site& alloc, const ir::Stmt& reader);

/// True when the elements of the region for which `conditions` (in `t`) hold certainly have a value in front of the
/// statement: the buffer comes in as an argument, or a store before covers them.
bool is_written_before(const ir::Kernel& k, const Site& site, const ir::Buffer& buffer, const Region& region,
                       const std::vector<ir::Var>& t, const std::vector<ir::Expr>& conditions);

/// Conditions around stores to local buffers that only kept padding from being computed go away, or, where a whole tile
/// may lie beyond, ask for the tile's first element alone: every read inside is of memory that is written in full, and
/// nobody reads the elements that the condition left out.
ir::Kernel drop_guards(ir::Kernel k);

}  // namespace loopwright::schedule
