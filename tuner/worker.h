// The process that runs candidates: started beside the tuner, reused from trial to trial, killed and replaced when a
// candidate hangs or faults.
#pragma once

#include <memory>
#include <string>

#include "loopwright/base.h"
#include "tuner/protocol.h"

namespace loopwright::tuner {

/// The program: `asked` when it is not empty, else LOOPWRIGHT_WORKER, else loopwright-worker in the folder of this
/// program or in a bin folder beside it. not_found lists where it was looked for.
Result<std::string> find_worker(const std::string& asked);

/// How a worker answered, or how it ended.
enum class Answer : std::uint8_t { reply, timeout, died };

struct Reply {
  Answer answer = Answer::reply;
  std::string text;          ///< JSON, for `reply`
  int signal = 0;            ///< that ended it, for `died`
  bool faulted_in_arena = false;
  std::uint64_t fault_offset = 0;
};

class Worker {
 public:
  /// `arena_bytes` of address space are shared with the process; only touched pages cost memory.
  static Result<std::unique_ptr<Worker>> start(const std::string& program, std::uint64_t arena_bytes);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends one command and waits for its answer. After `timeout` and `died` the process is gone (killed, reaped);
  /// `respawn` makes a new one.
  Reply call(const std::string& json, std::int64_t timeout_ms);
  /// Ends the process, if there is one, and starts another on the same arena.
  Status respawn();
  /// Ends the process: its device is lost, or it answered what no worker of ours does.
  void stop() { end_process(); }
  bool is_alive() const { return pid_ > 0; }
  Arena& arena() { return arena_; }
  /// Grows with every new process: what was told to an older one is forgotten.
  int generation() const { return generation_; }
  int pid() const { return pid_; }

 private:
  Worker() = default;
  void end_process();
  std::string program_;
  Arena arena_;
  int socket_ = -1;
  int pid_ = -1;
  int generation_ = 0;
};

}  // namespace loopwright::tuner
