// The interpreter's machine: storage with its checks, and expressions compiled to trees of small objects.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "src/ir/interpret.h"

namespace loopwright::ir {

/// An integer or bool as `i`, any float as `f`; the dtype is known where it is used.
union Value {
  std::int64_t i;
  double f;
};

/// Why a run stopped; thrown inside the interpreter only.
struct Fault {
  ErrorCode code;
  std::string found;
};

/// Since execution is sequential, iterations of a loop are intervals of time. An access at time t and the current one
/// are in different iterations of one loop instance exactly when begin <= t < iteration_begin for a running loop.
struct ParallelLoop {
  std::uint64_t begin;            ///< when this instance of the loop began
  std::uint64_t iteration_begin;  ///< when the current iteration began
  const Var* var;
};

/// What is known of the accesses to one element. Times are positive; 0 is never.
struct Touch {
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  std::uint64_t shared_since =
      0;  ///< begin of the outermost running loop whose different iterations have read it
};

/// The elements of one buffer while it exists.
struct Storage {
  const BufferInfo* buffer = nullptr;
  std::uint8_t* data = nullptr;
  std::vector<std::int64_t> shape, strides;
  std::vector<Touch> touches;       ///< by element offset
  std::vector<std::uint8_t> owned;  ///< of an Alloc
};

struct Frame {
  std::vector<Value> slots;
  std::vector<Storage> storages;
  std::vector<ParallelLoop> loops;  ///< running loops with unordered iterations, outermost first
  std::uint64_t now = 2;            ///< 1 is when the inputs were written
  InterpretOptions options;

  void note_read(Storage& s, std::int64_t offset) {
    Touch& t = s.touches[static_cast<std::size_t>(offset)];
    if (t.written == 0 && options.check_uninitialised) fail_uninitialised(s, offset);
    if (!loops.empty() && options.check_races) check_read(s, t, offset);
    t.read = now;
  }
  void note_write(Storage& s, std::int64_t offset) {
    Touch& t = s.touches[static_cast<std::size_t>(offset)];
    if (!loops.empty() && options.check_races) check_write(s, t, offset);
    t.written = now;
  }

 private:
  void check_read(const Storage& s, Touch& t, std::int64_t offset) const;
  void check_write(const Storage& s, const Touch& t, std::int64_t offset) const;
  /// The outermost running loop of which another iteration was current at `time`.
  const ParallelLoop* other_iteration(std::uint64_t time) const;
  [[noreturn]] void fail_race(const Storage& s, std::int64_t offset, const ParallelLoop& loop,
                              const char* what) const;
  [[noreturn]] static void fail_uninitialised(const Storage& s, std::int64_t offset);
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Value run(Frame& frame) const = 0;
};
using Evaluate = std::unique_ptr<const Evaluator>;

/// Numbers variables and buffers, and compiles expressions that use them.
class EvaluatorBuilder {
 public:
  int slot_of(const Var& v);
  int storage_of(const Buffer& b);
  int slot_count() const { return static_cast<int>(slots_.size()); }
  int storage_count() const { return static_cast<int>(storages_.size()); }
  const std::map<Var, int>& slots() const { return slots_; }
  Evaluate build(const Expr& e);

 private:
  Evaluate build_unary(const Unary& x, DType from);
  Evaluate build_binary(const Binary& x);
  Evaluate build_cast(const Cast& x, DType to);
  Evaluate build_load(const Load& x);
  std::map<Var, int> slots_;
  std::map<Buffer, int> storages_;
};

/// Position of an element in its buffer, with every index checked.
class Locator {
 public:
  Locator(int storage, std::vector<Evaluate> index) : storage_(storage), index_(std::move(index)) {}
  std::int64_t offset(Frame& frame) const {
    const Storage& s = frame.storages[static_cast<std::size_t>(storage_)];
    std::int64_t out = 0;
    for (std::size_t d = 0; d < index_.size(); ++d) {
      const std::int64_t i = index_[d]->run(frame).i;
      if (static_cast<std::uint64_t>(i) >= static_cast<std::uint64_t>(s.shape[d])) fail(s, d, i);
      out += i * s.strides[d];
    }
    return out;
  }
  Storage& storage(Frame& frame) const { return frame.storages[static_cast<std::size_t>(storage_)]; }

 private:
  [[noreturn]] static void fail(const Storage& s, std::size_t dimension, std::int64_t index);
  int storage_;
  std::vector<Evaluate> index_;
};

Value load_value(DType dtype, const std::uint8_t* data, std::int64_t offset);
void store_value(DType dtype, std::uint8_t* data, std::int64_t offset, Value value);

}  // namespace loopwright::ir
