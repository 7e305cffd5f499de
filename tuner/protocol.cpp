#include "tuner/protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace loopwright::tuner {
namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds left, at least 0; -1 for no limit.
int left_ms(bool limited, Clock::time_point deadline) {
  if (!limited) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(std::min<std::int64_t>(left + 1, 1 << 30));
}

bool send_all(int socket, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

Received receive_all(int socket, void* data, std::size_t bytes, bool limited, Clock::time_point deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd wait{socket, POLLIN, 0};
    const int ready = ::poll(&wait, 1, left_ms(limited, deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Received::broken;
    if (ready == 0) return Received::timeout;
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Received::closed;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return Received::message;
}

}  // namespace

bool send_message(int socket, std::string_view text) {
  if (text.size() > kMaxMessageBytes) return false;
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  frame += text;
  return send_all(socket, frame.data(), frame.size());
}

Received receive_message(int socket, std::int64_t timeout_ms, std::string& text) {
  const bool limited = timeout_ms >= 0;
  const auto deadline = Clock::now() + std::chrono::milliseconds(limited ? timeout_ms : 0);
  std::uint8_t head[4];
  if (const Received r = receive_all(socket, head, sizeof head, limited, deadline); r != Received::message) return r;
  std::uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= static_cast<std::uint32_t>(head[i]) << (8 * i);
  if (bytes > kMaxMessageBytes) return Received::broken;
  text.assign(bytes, '\0');
  return receive_all(socket, text.data(), bytes, limited, deadline);
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Arena::create(std::uint64_t bytes) {
  descriptor_ = ::memfd_create("loopwright-arena", MFD_CLOEXEC);
  if (descriptor_ < 0) return false;
  for (; bytes >= (64u << 20); bytes /= 2) {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) continue;
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<std::uint8_t*>(base);
    bytes_ = bytes;
    return true;
  }
  return false;
}

bool Arena::attach(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || info.st_size <= 0) return false;
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::uint8_t*>(base);
  bytes_ = bytes;
  descriptor_ = descriptor;
  return true;
}

void Arena::release(std::uint64_t offset, std::uint64_t bytes) {
  if (descriptor_ < 0 || bytes == 0) return;
  ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

}  // namespace loopwright::tuner
