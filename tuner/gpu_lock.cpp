#include "tuner/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace loopwright::tuner {

Result<GpuLock> GpuLock::take(const std::string& uuid) {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  const std::string path =
      std::string(folder != nullptr && folder[0] != '\0' ? folder : "/tmp") + "/loopwright-" + uuid + ".lock";
  GpuLock lock;
  // Others may want it too, whoever makes it first; what it says does not matter.
  lock.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock.descriptor_ < 0)
    return Error{.code = ErrorCode::io,
                 .asked = "lock the GPU " + uuid,
                 .found = std::strerror(errno),
                 .where = path,
                 .works = "XDG_RUNTIME_DIR naming a folder that can be written"};
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0)
    return Error{.code = ErrorCode::busy,
                 .asked = "lock the GPU " + uuid,
                 .found = "another process measures on it",
                 .where = path,
                 .works = "waiting for it, or another GPU (cuda:N)"};
  return lock;
}

GpuLock::~GpuLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace loopwright::tuner
