// What a database holds of a graph's kernels, range by range, in the graph's own names of symbols.
#pragma once

#include <string>
#include <vector>

#include "db/query.h"
#include "loopwright/graph.h"

namespace loopwright::cli {

struct KernelRanges {
  int kernel = 0;  ///< its place in the plan
  std::string family, workload;
  std::vector<Symbol> symbols;
  /// By device, toolchain and policy, then as they serve: what lies over others first, then from small to large.
  std::vector<db::BestEntry> ranges;
};
/// One for each kernel of the graph; without ranges where the database has none.
Result<std::vector<KernelRanges>> list_kernel_ranges(const db::Query& query, const Graph& graph);

/// Only ranges of one device, toolchain and policy, those measured last; `device`, when not empty, is the beginning of a
/// digest or a part of a model's name.
void keep_newest(KernelRanges& kernel, const std::string& device);

/// Template and picks: `matmul rows=6 columns=2`.
std::string name_schedule(const db::CandidateRow& candidate);

/// A shape at which finalists were measured.
struct MeasuredShape {
  Bindings values;
  bool held_out = false;
  int range = -1;                  ///< position of the one that serves it
  double served_ns = 0, best_ns = 0, default_ns = 0;  ///< 0: not measured
  std::vector<double> others_ns;   ///< the other finalists
  double loss() const { return served_ns > 0 && best_ns > 0 ? served_ns / best_ns - 1 : 0; }
};
/// Of a kernel after keep_newest: medians measured last, at all shapes where what serves was measured beside others.
Result<std::vector<MeasuredShape>> list_measured(const db::Query& query, const KernelRanges& kernel);

}  // namespace loopwright::cli
