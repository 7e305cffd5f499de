// The memory-bound cases that are timed on a GPU.
#pragma once

#include <string>
#include <vector>

#include "loopwright/graph.h"

namespace loopwright::bench {

struct Case {
  std::string family, shape;
  std::string graph;
  Bindings sizes;                ///< of the graph's symbols
  double read = 0, written = 0;  ///< bytes
  bool in_suite = false;         ///< counts for the geometric mean
  int links = 1;                 ///< launches one behind the other, each of what the last one wrote
  std::string name() const { return family + " " + shape; }
};

std::vector<Case> all_cases();

}  // namespace loopwright::bench
