// The long waits of a run: its device and its subjects, during which it can be ended.
#pragma once

#include <chrono>

#include "tuner/interruption.h"
#include "tuner/tuner.h"

namespace loopwright::tuner {

/// Passes everything on and adds up the time spent in it, in which the run's thread is away.
class MeteredDevice : public Device {
 public:
  MeteredDevice(Device& inner, Interruption& interruption) : inner_(inner), interruption_(interruption) {}
  std::string policy() const override { return inner_.policy(); }
  Status open(const Setup& setup) override {
    const Meter meter(busy_s_);
    const Interruption::Away away(&interruption_);
    return inner_.open(setup);
  }
  Verdict admit(const Candidate& c) override { return inner_.admit(c); }
  Verdict verify(const Candidate& c, Depth depth) override {
    const Meter meter(busy_s_);
    const Interruption::Away away(&interruption_);
    return inner_.verify(c, depth);
  }
  Samples time(const Candidate& c, const Bindings& probe, int count, double give_up_ns) override {
    const Meter meter(busy_s_);
    const Interruption::Away away(&interruption_);
    return inner_.time(c, probe, count, give_up_ns);
  }
  void set_default_time(double ns) override { inner_.set_default_time(ns); }
  void release(const std::string& digest) override { inner_.release(digest); }
  double busy_s() const { return busy_s_; }

 private:
  struct Meter {
    explicit Meter(double& sum) : sum(sum) {}
    ~Meter() { sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count(); }
    double& sum;
    std::chrono::steady_clock::time_point from = std::chrono::steady_clock::now();
  };
  Device& inner_;
  Interruption& interruption_;
  double busy_s_ = 0;
};

/// The bench, with the run's thread away while a reference is built.
inline Workbench leave_for_subjects(const Workbench& bench, Interruption& interruption) {
  Workbench away = bench;
  away.make_subject = [make = bench.make_subject, &interruption](const graph::Workload& workload, const TuneOptions& options) {
    const Interruption::Away leave(&interruption);
    return make(workload, options);
  };
  return away;
}

}  // namespace loopwright::tuner
