// A loader for tests: maps the image of a CPU artifact and calls its entries one after the other on this thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loopwright/artifact.h"

namespace loopwright::test {

/// Executable memory with a copy of an image.
class MappedImage {
 public:
  explicit MappedImage(const std::vector<std::uint8_t>& image);
  ~MappedImage();
  MappedImage(const MappedImage&) = delete;
  MappedImage& operator=(const MappedImage&) = delete;
  template <class Function>
  Function at(std::uint64_t offset) const {
    return reinterpret_cast<Function>(static_cast<std::uint8_t*>(memory_) + offset);
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Addresses of kCpuCallees.
const void* const* cpu_callees();

/// Runs every launch in order, each in chunks of at most `chunk` iterations. `buffers` has one address for each
/// argument of the artifact, except that workspaces (in any place) are allocated here and left out.
Status run_artifact(const Artifact& artifact, const Bindings& symbols, const std::vector<void*>& buffers,
                    std::int64_t chunk = INT64_MAX);

}  // namespace loopwright::test
