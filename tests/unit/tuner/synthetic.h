// A made-up schedule space with known times, and a workbench that tunes real graphs over it without compiling anything.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "src/runtime/device.h"
#include "src/support/digest.h"
#include "tuner/recorded_device.h"
#include "tuner/tuner.h"

namespace loopwright::tuner::testing {

/// The value; without one the test fails.
template <class T>
T take_value(Result<T> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return std::move(*result);
}

/// Six picks, 7 * 7 * 5 * 4 * 2 * 3 = 5880 candidates; the default is far from the best.
inline void run_synthetic_template(Space& k) {
  k.pick("tile_m", {1, 2, 4, 8, 16, 32, 64});
  k.pick("tile_n", {1, 2, 4, 8, 16, 32, 64});
  k.pick("tile_k", {8, 16, 32, 64, 128});
  k.pick("unroll", {1, 2, 4, 8});
  k.pick_flag("pack");
  k.pick("order", {0, 1, 2});
}

inline std::int64_t value_of(const Picks& picks, const std::string& name) {
  for (const Pick& p : picks) {
    if (p.name == name) return p.value;
  }
  return 0;
}

/// Nanoseconds; the least is 1000, at tile_m 16, tile_n 32, tile_k 64, unroll 4, pack, order 1. Large tiles suit large
/// sizes.
inline double synthetic_time_ns(const Picks& picks, std::int64_t size = 256) {
  const auto distance = [&](const char* name, double best) {
    return std::log2(static_cast<double>(value_of(picks, name))) - std::log2(best);
  };
  const double shift = 0.5 * std::log2(static_cast<double>(size) / 256.0);
  const double m = distance("tile_m", 16) - std::round(shift), n = distance("tile_n", 32), k = distance("tile_k", 64),
               u = distance("unroll", 4);
  double ns = 1000 * (1 + 0.12 * m * m + 0.08 * n * n + 0.05 * k * k + 0.06 * u * u + 0.04 * m * n);
  if (value_of(picks, "pack") == 0) ns *= 1.5;
  if (value_of(picks, "order") != 1) ns *= 1.25;
  return ns * static_cast<double>(size) / 256.0;
}

class SyntheticBuilder : public Builder {
 public:
  int template_count() const override { return 1; }
  std::string template_name(int) const override { return "synthetic"; }
  Result<Prepared> prepare(int, Space& space, const Bindings&) const override {
    run_synthetic_template(space);
    const Picks picks = space.picks();
    if (value_of(picks, "tile_m") * value_of(picks, "tile_n") > 2048) {
      return Error{.code = ErrorCode::requirement_failed, .asked = "tiles", .found = "they are too large"};
    }
    Prepared p{.template_name = "synthetic", .choices = space.choices(), .trace = "tile " + print_picks(picks)};
    p.kernel_digest = sha256_hex(p.trace);
    for (const Pick& pick : picks) p.features.push_back(std::log2(static_cast<float>(pick.value) + 1));
    return p;
  }
  Result<Prepared> replay(const std::string& trace) const override {
    if (!trace.starts_with("tile ")) return Error{.code = ErrorCode::trace_version, .asked = "replay", .found = trace};
    return Prepared{.trace = trace, .kernel_digest = sha256_hex(trace)};
  }
  Result<std::shared_ptr<const Artifact>> compile(const Prepared& prepared) const override {
    auto artifact = std::make_shared<Artifact>();
    artifact->target = host_target().text();
    artifact->image.assign(prepared.trace.begin(), prepared.trace.end());
    return std::shared_ptr<const Artifact>(artifact);
  }
};

inline Workbench make_synthetic_workbench(RecordedTimes times, double noise) {
  Workbench bench = make_workbench();
  bench.make_device = [=](const TuneOptions&) {
    return Result<std::unique_ptr<Device>>(std::make_unique<RecordedDevice>(times, noise));
  };
  bench.make_subject = [](const graph::Workload& workload, const TuneOptions& options) {
    Subject subject;
    subject.symbols = workload.graph.symbols();
    subject.builder = std::make_unique<SyntheticBuilder>();
    subject.setup.workload = workload.digest;
    subject.setup.seed = options.seed;
    return Result<Subject>(std::move(subject));
  };
  return bench;
}

inline Recorded record_synthetic(const Candidate& candidate, const Bindings& probe) {
  return {Outcome::ok, synthetic_time_ns(candidate.picks, probe.empty() ? 256 : probe.begin()->second)};
}

/// A folder of its own for each test.
struct TempFolder {
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lw-tuner-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
  std::filesystem::path path;
};

}  // namespace loopwright::tuner::testing
