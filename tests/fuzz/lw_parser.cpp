// Any bytes as a graph file: an error or a graph, whose text parses back to the same text; groups and kernels of it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loopwright/graph.h"
#include "src/graph/group.h"
#include "src/graph/naive_kernel.h"
#include "src/graph/workload.h"
#include "src/ir/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace loopwright;
  const Result<Graph> g = Graph::parse({reinterpret_cast<const char*>(data), size}, "fuzz.lw");
  if (!g.ok()) {
    if (g.error().message().empty() || g.error().where.empty()) std::abort();
    return 0;
  }
  const std::string text = g->text();
  const Result<Graph> again = Graph::parse(text, "again.lw");
  if (!again.ok() || again->text() != text) std::abort();
  constexpr std::size_t kMostNodes = 200;  // the rest is for the parser alone
  if (g->nodes().size() > kMostNodes) return 0;
  const Result<ir::Kernel> kernel = graph::naive_kernel(*g);
  if (!kernel.ok() || !ir::verify(*kernel).ok()) std::abort();
  for (const graph::Group& group : graph::group_ops(*g)) {
    const graph::Workload made = graph::make_workload(group.graph);
    const Result<graph::Workload> read = graph::parse_workload(made.text);
    if (!read.ok() || read->digest != made.digest) std::abort();
  }
  return 0;
}
