// What a schedule's author may ask of a kernel.
#pragma once

#include "loopwright/schedule.h"
#include "src/ir/kernel.h"

namespace loopwright::schedule {

std::vector<NestInfo> describe_nests(const ir::Kernel& k);
std::vector<LoopId> describe_loops(const ir::Kernel& k, const std::string& buffer);
BufferShape describe_buffer(const ir::Kernel& k, const std::string& name);
std::vector<LoopId> describe_children(const ir::Kernel& k, const std::string& loop);
/// Largest and constant value of a loop's extent.
std::int64_t max_extent(const ir::Kernel& k, const std::string& loop);
std::optional<std::int64_t> constant_extent(const ir::Kernel& k, const std::string& loop);

}  // namespace loopwright::schedule
