// Builds a graph, makes a plan with default schedules and runs it: the whole way from an installed tree.
#include <cstdio>
#include <vector>

#include "loopwright/compile.h"

using namespace loopwright;

int main() {
  Graph graph("double_it");
  const auto n = graph.symbol("n", 1, 64);
  if (!n) return 1;
  const auto x = graph.input("x", {DType::f32, {*n}, {}});
  if (!x) return 1;
  const auto y = graph.binary("add", *x, *x);
  if (!y || !graph.output("y", *y)) return 1;

  const auto plan = make_plan(graph, {.target = host_target(), .databases = {}});
  if (!plan) {
    std::printf("%s\n", plan.error().message().c_str());
    return plan.error().code == ErrorCode::unsupported ? 0 : 1;  // built without the CPU backend
  }
  std::vector<float> in{1, 2, 3, 4, 5}, out(5, -1);
  const std::int64_t shape[] = {5};
  const TensorView tensors[] = {{in.data(), DType::f32, shape, {}}, {out.data(), DType::f32, shape, {}}};
  if (!plan->run(tensors)) return 1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (out[i] != 2 * in[i]) return 1;
  }
  std::printf("ok\n");
  return 0;
}
