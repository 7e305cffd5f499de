#include "tuner/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

extern char** environ;

namespace loopwright::tuner {
namespace {

constexpr std::int64_t kStartTimeoutMs = 20000;
constexpr int kDescriptorsFrom = 16;  ///< parent's copies live above the numbers the worker uses

Error make_io_error(std::string asked, std::string found, std::string works) {
  return {.code = ErrorCode::io, .asked = std::move(asked), .found = std::move(found), .works = std::move(works)};
}

/// A descriptor above those that the worker expects, closed on exec.
int move_up(int descriptor) {
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kDescriptorsFrom);
  ::close(descriptor);
  return moved;
}

}  // namespace

Result<std::string> find_worker(const std::string& asked) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> places;
  if (!asked.empty()) {
    places.push_back(asked);
  } else if (const char* named = std::getenv("LOOPWRIGHT_WORKER"); named != nullptr && *named != '\0') {
    places.emplace_back(named);
  } else {
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {folder / "loopwright-worker", folder / ".." / "bin" / "loopwright-worker",
              folder / ".." / ".." / "bin" / "loopwright-worker"};
  }
  std::string looked;
  for (const std::string& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
    looked += (looked.empty() ? "" : ", ") + place;
  }
  return Error{.code = ErrorCode::not_found,
               .asked = "start the worker process",
               .found = "no executable at " + looked,
               .works = "set LOOPWRIGHT_WORKER or TuneOptions::worker_path to loopwright-worker"};
}

Result<std::unique_ptr<Worker>> Worker::start(const std::string& program, std::uint64_t arena_bytes) {
  std::unique_ptr<Worker> worker(new Worker);
  worker->program_ = program;
  if (!worker->arena_.create(arena_bytes)) {
    return make_io_error("make shared memory for the worker", std::strerror(errno), "a higher limit of address space (ulimit -v)");
  }
  LW_CHECK(worker->respawn());
  return worker;
}

Worker::~Worker() { end_process(); }

void Worker::end_process() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

Status Worker::respawn() {
  end_process();
  std::memset(arena_.at(0), 0, sizeof(FaultReport));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return make_io_error("connect to the worker", std::strerror(errno), "a higher limit of open files (ulimit -n)");
  }
  const int theirs = move_up(pair[1]);
  const int shared = ::fcntl(arena_.descriptor(), F_DUPFD_CLOEXEC, kDescriptorsFrom);
  socket_ = move_up(pair[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, shared, kWorkerArena);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The worker must not inherit a blocked or ignored signal; Ctrl-C at the terminal is for the tuner alone.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string parent = std::to_string(::getpid());
  char* arguments[] = {program_.data(), parent.data(), nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program_.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(theirs);
  ::close(shared);
  if (failed != 0) return make_io_error("start " + program_, std::strerror(failed), "the loopwright-worker of this machine and build: --worker or LOOPWRIGHT_WORKER");
  pid_ = pid;
  ++generation_;
  std::string hello;
  if (receive_message(socket_, kStartTimeoutMs, hello) != Received::message) {
    end_process();
    return make_io_error("start " + program_, "the process did not say hello within " + std::to_string(kStartTimeoutMs / 1000) + " s or ended",
                         "the loopwright-worker of the same build: --worker or LOOPWRIGHT_WORKER");
  }
  const std::string expected = "{\"protocol\":" + std::to_string(kProtocolVersion) + "}";
  if (hello != expected) {
    end_process();
    return Error{.code = ErrorCode::unsupported,
                 .asked = "start " + program_,
                 .found = "it answered " + hello.substr(0, 80) + ", not " + expected,
                 .works = "use the worker of the same build"};
  }
  return Unit{};
}

Reply Worker::call(const std::string& json, std::int64_t timeout_ms) {
  Reply reply;
  if (pid_ <= 0) {
    reply.answer = Answer::died;
    return reply;
  }
  Received received = Received::closed;
  if (send_message(socket_, json)) received = receive_message(socket_, timeout_ms, reply.text);
  if (received == Received::message) return reply;
  if (received == Received::timeout) {
    end_process();
    reply.answer = Answer::timeout;
    return reply;
  }
  reply.answer = Answer::died;
  int status = 0;
  pid_t done = 0;
  // The socket closes a moment before the process can be reaped.
  for (int tries = 0; tries < 500 && done == 0; ++tries) {
    done = ::waitpid(pid_, &status, WNOHANG);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (done == pid_) {
    pid_ = -1;
    if (WIFSIGNALED(status)) reply.signal = WTERMSIG(status);
    FaultReport report;
    std::memcpy(&report, arena_.at(0), sizeof report);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kFaultExit) {
      reply.signal = static_cast<int>(report.signal);
      reply.faulted_in_arena = report.inside_arena != 0;
      reply.fault_offset = report.offset;
    }
  }
  end_process();
  return reply;
}

}  // namespace loopwright::tuner
