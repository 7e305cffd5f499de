// Every read and write of a statement, with the loops and conditions around it.
#pragma once

#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::schedule {

struct Access {
  enum class Kind : std::uint8_t { read, write, update };
  ir::Buffer buffer;
  std::vector<ir::Expr> index;  ///< variables of integer Lets below the root are replaced by their values
  Kind kind = Kind::read;
  ir::Monoid monoid{};  ///< of an update
  ir::Stmt statement;   ///< whose execution makes it
  std::vector<ir::Stmt>
      loops;  ///< around it below the root (which counts when it is a loop), outermost first
  std::vector<ir::Expr> conditions;  ///< of the Ifs around it below the root, outermost first
  bool local = false;                ///< the buffer is allocated below the root
  bool optional = false;             ///< in a part of an expression that may not be evaluated
  bool writes() const { return kind != Kind::read; }
  const ir::Loop& loop(std::size_t i) const { return std::get<ir::Loop>(loops[i]->v); }
};

/// In program order, the reads of a statement before its write. An Update is one `update` for each of its buffers.
std::vector<Access> collect_accesses(const ir::Stmt& root);

/// Whether the index reads data, at a place that moves with one of the loops.
bool is_moved_by_data(const ir::Expr& index, const std::vector<ir::Stmt>& loops);

/// Whether it reads memory that is no parameter and no workspace: what it gives may differ from place to place.
bool reads_local(const ir::Expr& e);

/// The buffers that some Update of the kernel combines together with `buffer`, and itself; in the Update's order.
std::vector<ir::Buffer> update_group(const ir::Stmt& body, const ir::Buffer& buffer);

}  // namespace loopwright::schedule
