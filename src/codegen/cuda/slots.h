// Blocks that leave one value each for the block that goes on: a word with a flag for each, instead of a counter behind a
// fence. The last block of the grid waits for all words; the others wait for nobody, so that it ends.
#pragma once

#include <string>
#include <vector>

#include "src/codegen/cuda/barriers.h"
#include "src/codegen/cuda/regions.h"

namespace loopwright::codegen {

/// The buffers that a region's blocks hand over in words: one element of four bytes each, stored at the top of the body;
/// empty where something else passes from the blocks to what follows, or the grid is large or of unknown size.
std::vector<ir::Buffer> find_slots(const Region& region, const BlockShape& block);

/// Text of a four-byte value as `unsigned`.
std::string to_bits(const std::string& value, DType dtype);
/// The statement that takes all words of a buffer (`count` of them) into shared memory named `into`.
std::string take_words(const std::string& words, const std::string& into, DType dtype, std::int64_t count, const BlockShape& block);

}  // namespace loopwright::codegen
