#include "src/graph/workload.h"

#include <algorithm>

#include "src/graph/ops.h"
#include "src/support/digest.h"

namespace loopwright::graph {
namespace {

const std::string kHeader = "loopwright workload " + std::to_string(kWorkloadVersion) + "\n";

std::string reduction_family(const Graph& g, const Node& node) {
  const Call call = call_of(g, node);
  const std::vector<std::int64_t>& axes = call.integers("axes");
  const auto rank = static_cast<std::int64_t>(call.operands[0].shape.size());
  if (static_cast<std::int64_t>(axes.size()) == rank) return "full_reduction";
  const bool is_trailing = !axes.empty() && axes.front() == rank - static_cast<std::int64_t>(axes.size());
  return is_trailing ? "row_reduction" : "column_reduction";
}

std::string find_family(const Graph& g) {
  std::string family = "elementwise";
  bool has_permute = false, has_arithmetic = false;
  for (const Node& node : g.nodes()) {
    const Op* op = find_op(node.op);
    if (!op) continue;
    switch (op->kind) {
      case OpKind::contraction: return "matmul";
      case OpKind::reduction: return reduction_family(g, node);
      case OpKind::scan: return "scan";
      case OpKind::write: return node.op == "scatter" ? "scatter" : "cache_update";
      case OpKind::gather: family = "gather"; break;
      case OpKind::view: has_permute = has_permute || node.op == "permute"; break;
      case OpKind::pointwise:
        has_arithmetic = has_arithmetic || (node.op != "copy" && node.op != "cast");
        break;
      case OpKind::source: break;
    }
  }
  return family == "elementwise" && has_permute && !has_arithmetic ? "transpose" : family;
}

}  // namespace

Workload make_workload(const Graph& canonical_group) {
  Workload out;
  out.graph = canonical_group;
  out.text = kHeader + canonical_group.text();
  out.digest = sha256_hex(out.text);
  out.family = find_family(canonical_group);
  return out;
}

Workload make_strict(const Workload& workload) {
  Graph graph = workload.graph;
  graph.allow(Accuracy::strict);
  return make_workload(graph);
}

Result<Workload> parse_workload(std::string_view text) {
  if (!text.starts_with(kHeader)) {
    const std::string first(text.substr(0, std::min<std::size_t>(text.find('\n'), 64)));
    return Error{ErrorCode::syntax, "parse a workload", "first line `" + first + "`", "workload:1:1",
                 "`" + kHeader.substr(0, kHeader.size() - 1) + "`"};
  }
  LW_TRY(Graph g, Graph::parse(text.substr(kHeader.size()), "workload"));
  Workload out = make_workload(g);
  if (out.text != text)
    return Error{ErrorCode::syntax, "parse a workload", "text that is not canonical", "workload",
                 "the text that was written"};
  return out;
}

}  // namespace loopwright::graph
