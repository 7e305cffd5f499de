#include "tests/support/run_image.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace loopwright::test {
namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

template <class F>
const void* address(F function) {
  return reinterpret_cast<const void*>(function);
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

/// Poisoned, so that reading what was not written shows.
Memory allocate(std::int64_t bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + 63) / 64 * 64;
  Memory memory(std::aligned_alloc(64, rounded));
  std::memset(memory.get(), 0xff, rounded);
  return memory;
}

std::int64_t count_elements(const ArtifactArg& arg, const std::int64_t* symbols) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < arg.shape.size(); ++d) {
    const std::int64_t extent = arg.shape[d].evaluate(symbols);
    if (extent == 0) return 0;
    last += (extent - 1) * arg.strides[d].evaluate(symbols);
  }
  return last + 1;
}

}  // namespace

MappedImage::MappedImage(const std::vector<std::uint8_t>& image) : bytes_(std::max<std::size_t>(image.size(), 1)) {
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  LW_BUG_IF(memory_ == MAP_FAILED, "mmap");
  std::copy(image.begin(), image.end(), static_cast<std::uint8_t*>(memory_));
  LW_BUG_IF(mprotect(memory_, bytes_, PROT_READ | PROT_EXEC) != 0, "mprotect");
}

MappedImage::~MappedImage() { munmap(memory_, bytes_); }

const void* const* cpu_callees() {
  static const std::array<const void*, kCpuCallees.size()> table = {
      address<Unary>(std::exp),  address<Unary>(std::exp2), address<Unary>(std::log),  address<Unary>(std::log2),
      address<Unary>(std::log1p), address<Unary>(std::expm1), address<Unary>(std::sin), address<Unary>(std::cos),
      address<Unary>(std::tan),  address<Unary>(std::asin), address<Unary>(std::acos), address<Unary>(std::atan),
      address<Unary>(std::sinh), address<Unary>(std::cosh), address<Unary>(std::tanh), address<Unary>(std::erf),
      address<Unary>(std::cbrt), address<Binary>(std::pow), address<Binary>(std::atan2), address<Binary>(std::fmod)};
  return table.data();
}

Status run_artifact(const Artifact& artifact, const Bindings& symbols, const std::vector<void*>& buffers,
                    std::int64_t chunk) {
  std::vector<std::int64_t> values;
  for (const std::string& name : artifact.symbols) {
    const auto it = symbols.find(name);
    if (it == symbols.end()) {
      return Error{ErrorCode::wrong_arguments, "running an artifact", "no value for `" + name + "`", "", ""};
    }
    values.push_back(it->second);
  }
  std::vector<void*> addresses;
  std::vector<Memory> workspaces;
  std::size_t next = 0;
  for (const ArtifactArg& arg : artifact.args) {
    if (arg.role == ArgRole::workspace) {
      workspaces.push_back(allocate(count_elements(arg, values.data()) * size_bytes(arg.dtype)));
      addresses.push_back(workspaces.back().get());
    } else {
      LW_BUG_IF(next >= buffers.size(), "too few buffers");
      addresses.push_back(buffers[next++]);
    }
  }
  LW_BUG_IF(next != buffers.size(), "too many buffers");
  const MappedImage image(artifact.image);
  for (const Launch& launch : artifact.launches) {
    const auto& cpu = std::get<CpuLaunch>(launch);
    const Memory scratch = allocate(cpu.scratch_bytes.evaluate(values.data()));
    const CpuCall call{addresses.data(), values.data(), scratch.get(), cpu_callees()};
    const std::int64_t extent = cpu.extent.evaluate(values.data());
    for (std::int64_t begin = 0; begin < extent; begin += std::min(chunk, extent - begin)) {
      image.at<CpuEntry>(cpu.entry_offset)(&call, begin, begin + std::min(chunk, extent - begin));
    }
  }
  return Unit{};
}

}  // namespace loopwright::test
