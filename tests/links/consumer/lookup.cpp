// A shipped program: opens a database and asks for a plan by name.
#include <cstdio>

#include "loopwright/runtime.h"

int main(int argc, char** argv) {
  const std::string database = argc > 1 ? argv[1] : "missing.db";
  const auto runtime = loopwright::Runtime::open({.databases = {database}});
  if (!runtime) return 1;
  for (const auto& note : runtime->notes()) std::printf("%s\n", note.c_str());
  const auto plan = runtime->plan("rmsnorm");
  std::printf("rmsnorm: %s\n", plan ? "found" : "not found");
  return 0;
}
