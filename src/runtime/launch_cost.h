// Which of two ways to launch a plan's kernels takes the host less, by what earlier calls took.
#pragma once

#include <algorithm>
#include <cstddef>

namespace loopwright::runtime {

/// Host times in ns of one plan's kernels at one choice of variants. Not for several threads at once.
class LaunchCost {
 public:
  /// All kernels one by one.
  void note_plain(double ns) noexcept { plain_.note(ns); }
  /// A graph's launch.
  void note_replay(double ns) noexcept {
    if (++replays_ > 1) replay_.note(ns);  // the first one also brings the graph to the device
  }
  /// `nodes` nodes that were set before it.
  void note_patches(double ns, std::size_t nodes) noexcept { patch_.note(ns / static_cast<double>(nodes)); }

  /// Whether a graph takes less than launches one by one when `moved` of its nodes have to be set. Now and then a call goes
  /// the other way all the same, so that no figure gets old.
  bool prefers_graph(std::size_t moved) noexcept {
    if (replay_.ns + static_cast<double>(moved) * patch_.ns < plain_.ns) return true;
    return ++refused_ % kTriedAgain == 0;
  }
  /// The same for a graph that is as it was.
  bool prefers_replay() const noexcept { return replay_.ns < plain_.ns; }

 private:
  static constexpr int kTriedAgain = 64;
  /// What is slower than before may be the machine's doing; what is quicker is not.
  struct Estimate {
    double ns = 0;  ///< 0: unknown
    void note(double found) noexcept {
      ns = ns == 0 ? found : found < ns ? (ns + found) / 2 : ns + (std::min(found, 2 * ns) - ns) / 8;
    }
  };
  Estimate plain_, replay_, patch_;
  int replays_ = 0;
  unsigned refused_ = 0;
};

}  // namespace loopwright::runtime
