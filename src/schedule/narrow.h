// Moving a nest that computes a buffer to where a box of it is used, computing just that box.
#pragma once

#include <map>
#include <vector>

#include "src/schedule/tile.h"

namespace loopwright::schedule {

/// Statements of one sequence that compute `buffers` and nothing else that outlives them, and the item that uses them.
struct Producers {
  std::vector<ir::Stmt> units;
  ir::Stmt user;                  ///< the item of the same sequence on the way to the loop
  std::vector<ir::Stmt> between;  ///< items after the first unit that are neither
  std::vector<ir::Stmt> after;    ///< items behind the user
};

/// Finds the producers of the buffers in front of `at`. Rejects with `code`: written in more than one place, together
/// with another buffer, from themselves, or (unless `user_writes`) in the user as well.
Result<Producers> find_producers(const ir::Kernel& k, const std::vector<ir::Buffer>& buffers, const Site& at,
                                 bool user_writes, ErrorCode code);

/// Rejects with `code` when something the units read is written by one of `others`: they could not move past it.
Status check_inputs(const ir::Kernel& k, const std::vector<ir::Stmt>& units,
                    const std::vector<ir::Stmt>& others, ErrorCode code);

/// The unit over the region only, writing the local buffers. `facts` holds at its new place. The loops keep their
/// variables. Rejects with `code` when a dimension that shrinks is not indexed by one plain loop over all of it.
Result<ir::Stmt> narrow(const ir::Kernel& k, const ir::Stmt& unit,
                        const std::map<ir::Buffer, ir::Buffer>& local, const Region& region,
                        const ir::Facts& facts, ErrorCode code);

/// Producers at their new place, not yet put there.
struct MovedProducers {
  std::map<ir::Buffer, ir::Buffer> local;  ///< each buffer → what holds its region
  std::vector<ir::Buffer> allocs;          ///< the local buffers, in order
  std::vector<ir::Stmt> items;             ///< the narrowed units, in order
  Edits edits;                             ///< takes the units away from where they were
};
/// Narrows all units to the region, into new local buffers in `place`.
Result<MovedProducers> move_producers(const ir::Kernel& k, const std::vector<ir::Stmt>& units,
                                      const std::vector<ir::Buffer>& buffers, const Region& region,
                                      Place place, const ir::Facts& facts, ErrorCode code);

/// A loop over the whole of dimension `d` that a nest indexes a buffer with; empty when the index is something else.
std::optional<ir::Var> plain_loop(const Access& access, std::size_t d, const ir::Facts& facts);

}  // namespace loopwright::schedule
