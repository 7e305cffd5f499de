// Runs emitted CUDA text on the CPU, thread by thread, so that the text itself is tested without a GPU.
#pragma once

#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "src/codegen/cuda/emit.h"

namespace loopwright::test {

/// Who goes first where the kernel leaves it open: threads in their order or the other way round, copies before threads or as
/// late as somebody waits for them.
struct Turns {
  bool reversed = false, late_copies = false;
};

/// Several texts compiled into one library. Entries must differ.
class EmulatedProgram {
 public:
  static Result<EmulatedProgram> compile(const std::vector<const codegen::CudaText*>& texts);
  /// Launches all kernels of one text. `buffers` in the order of its args. timeout when the threads wait for each other
  /// for ever, or a barrier counts what it does not expect; the error says which.
  Status run(const codegen::CudaText& text, const std::vector<void*>& buffers,
             const std::vector<std::int64_t>& symbols, Turns turns) const;

 private:
  explicit EmulatedProgram(void* library) : library_(library) {}
  void* library_;
};

}  // namespace loopwright::test
