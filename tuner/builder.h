// From a proposal of the search to machine code. An interface, so that searches are tested on made-up spaces.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/schedule.h"
#include "src/driver/build.h"

namespace loopwright::tuner {

/// A candidate whose template ran and whose kernel is lowered.
struct Prepared {
  int template_index = 0;
  std::string template_name;
  std::vector<Space::Choice> choices;
  std::string trace;
  std::string kernel_digest;           ///< of the lowered kernel: equal digests, equal code
  std::vector<float> features;
  std::shared_ptr<const void> kernel;  ///< what `compile` needs
  Picks picks() const;
};

/// All steps may be called from several threads at once. An Error is a rejection or a failed compilation; its code
/// says which outcome it is (see classify_build_error).
class Builder {
 public:
  virtual ~Builder() = default;
  virtual int template_count() const = 0;
  virtual std::string template_name(int index) const = 0;
  /// Features are taken at `probe`.
  virtual Result<Prepared> prepare(int template_index, Space& space, const Bindings& probe) const = 0;
  /// A stored schedule again, without choices and features: it is to be compiled, not ranked.
  virtual Result<Prepared> replay(const std::string& trace) const = 0;
  virtual Result<std::shared_ptr<const Artifact>> compile(const Prepared& prepared) const = 0;
};

/// The compiler.
std::unique_ptr<Builder> make_driver_builder(const driver::Job& job, const Target& target);

/// The result of `f`, which returns one; whatever it throws becomes an Error with code bug: nothing thrown by the compiler
/// may end a run.
template <class F>
auto call_guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return Error{.code = ErrorCode::bug, .asked = "build a candidate", .found = e.what()};
  }
}

/// resource for what is too large for the target, rejected for a step or requirement that said no, else compile_error.
Outcome classify_build_error(ErrorCode code);

}  // namespace loopwright::tuner
