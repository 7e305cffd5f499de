#include "src/support/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

namespace loopwright {
namespace {

std::string find_path(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return asked;
  return map->l_name != nullptr && map->l_name[0] != '\0' ? map->l_name : asked;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(std::string_view what, const char* override_variable,
                                          const std::vector<std::string>& candidates) {
  const char* override_path = std::getenv(override_variable);
  const bool overridden = override_path != nullptr && override_path[0] != '\0';
  std::string tried;
  for (const std::string& candidate : overridden ? std::vector<std::string>{override_path} : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return SharedLibrary(handle, find_path(handle, candidate));
    const char* reason = dlerror();
    if (!tried.empty()) tried += "\n";
    tried += reason != nullptr ? reason : candidate;
  }
  return Error{
      ErrorCode::not_found, "open " + std::string(what),
      overridden ? std::string(override_variable) + " names a file that cannot be opened"
                 : "no library that can be opened; looked in:",
      tried,
      "install it where the dynamic linker looks, or set " + std::string(override_variable) + " to its path"};
}

void* SharedLibrary::find(const char* function) const { return dlsym(handle_, function); }

std::vector<std::string> toolkit_candidates(const std::vector<std::string>& sonames) {
  std::vector<std::string> candidates = sonames;
  const auto add_folder = [&](const std::string& folder) {
    for (const std::string& soname : sonames) candidates.push_back(folder + "/" + soname);
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home != nullptr && home[0] != '\0')
      add_folder(std::string(home) + "/lib64");
  add_folder("/usr/local/cuda/lib64");
  return candidates;
}

}  // namespace loopwright
