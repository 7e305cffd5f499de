// Links loopwright::runtime alone. What it does matters little; that it links is the proof.
#include <cstdio>

#include "loopwright/runtime.h"

int main() {
  const auto runtime = loopwright::Runtime::open({.databases = {"no_such_file.db"}});
  if (!runtime) {
    std::printf("open failed although only a database is missing\n");
    return 1;
  }
  if (runtime->notes().empty()) {
    std::printf("a missing database left no note\n");
    return 1;
  }
  const auto plan = runtime->plan("no_such_graph");
  if (plan) {
    std::printf("a plan came from nowhere\n");
    return 1;
  }
  std::printf("%s\n%s\n", runtime->notes().front().c_str(), runtime->target().text().c_str());
  return 0;
}
