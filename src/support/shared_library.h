// A library that is opened when the program runs, so that the program starts where it is missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loopwright/base.h"

namespace loopwright {

/// Stays open until the process ends: what was taken from it may be called as long as the program runs.
class SharedLibrary {
 public:
  /// The first of `candidates` (names for the dynamic linker, or paths) that opens. When the environment variable
  /// `override_variable` is set, its value is the only candidate. not_found with every place and the linker's words.
  static Result<SharedLibrary> open(std::string_view what, const char* override_variable,
                                    const std::vector<std::string>& candidates);

  /// Null when the library has no such function.
  void* find(const char* function) const;
  /// Fills `*function` and says whether it is there.
  template <class Function>
  bool find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(find(name));
    return *function != nullptr;
  }
  /// The file that the functions come from.
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

/// Names to try for a CUDA toolkit library: each soname, then in the toolkit's usual folders (CUDA_HOME, CUDA_PATH,
/// /usr/local/cuda).
std::vector<std::string> toolkit_candidates(const std::vector<std::string>& sonames);

}  // namespace loopwright
