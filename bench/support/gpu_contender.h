// Another program that times the same cases.
//
// Its command prints lines `FAMILY SHAPE POLICY TIME us ... err ERROR ...` (policy: cold, hot, seed; the error is
// optional). `{only}` in the command is replaced by a regular expression of one family, so that it can be run between
// our own timings of that family; a command without it is run once, for all.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace loopwright::bench {

class Contender {
 public:
  Contender(std::string name, std::string command) : name_(std::move(name)), command_(std::move(command)) {}
  const std::string& name() const { return name_; }
  /// Times the family once more; a command without `{only}` does nothing after its first run.
  void run(const std::string& family);
  /// Median over the runs; 0 when it printed nothing of the case (`family shape`).
  double time_us(const std::string& name, bool cold) const;
  /// The largest that it printed beside a time of the case; negative for none.
  double error(const std::string& name) const;

 private:
  void read_line(const std::string& line);

  std::string name_, command_;
  bool has_run_ = false;
  std::map<std::string, std::vector<double>> times_;  ///< by `family shape policy`
  std::map<std::string, double> errors_;              ///< by `family shape`
};

double median(std::vector<double> values);

}  // namespace loopwright::bench
