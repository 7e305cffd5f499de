// From an ELF object in memory to a flat image that runs wherever it is mapped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::codegen {

/// Code and constants in one block without relocations. It may be mapped at any page boundary, read and execute only.
struct Image {
  std::vector<std::uint8_t> bytes;
  std::map<std::string, std::uint64_t> functions;  ///< offsets of the defined functions
};

/// compile_failed naming the symbol or relocation when the object needs anything outside itself.
Result<Image> make_image(const std::vector<std::uint8_t>& elf_object);

}  // namespace loopwright::codegen
