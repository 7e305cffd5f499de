// One table of ours against contenders, timed interleaved in one run, and written as JSON and Markdown.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "loopwright/graph.h"
#include "loopwright/measure.h"
#include "loopwright/runtime.h"

namespace loopwright::bench {

struct Contender {
  std::string name;
  std::function<void()> run;
};

/// Command line of every benchmark: --db FILE, --budget SECONDS for tuning what FILE lacks, --out FOLDER.
struct Options {
  std::string database = "bench.lwdb";
  double budget_s = 60;
  std::string out = "bench/results";
  static Options parse(int argc, char** argv);
};

/// A graph tuned (or found tuned) and looked up by its name.
Plan tune_and_look_up(const std::string& graph_text, const Options& options);

class Contest {
 public:
  Contest(std::string benchmark, Options options);
  /// Times all in one interleaved run. `error` is ours against float64, relative; `target` is the ratio
  /// contender / ours that is asked for.
  void add(const std::string& name, const std::function<void()>& ours,
           const std::vector<Contender>& contenders, double error, double target);
  /// Prints the table and writes <out>/<machine>/<benchmark>.{json,md}.
  void finish() const;

 private:
  struct Row {
    std::string name, contender;
    Timing ours, theirs;
    double error = 0, target = 0;
  };
  std::string benchmark_;
  Options options_;
  std::vector<Row> rows_;
};

/// max |a - b| / (max |b|), for errors of float results against a float64 reference.
double max_relative_error(const float* values, const std::vector<double>& reference);

}  // namespace loopwright::bench
