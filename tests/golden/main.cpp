// Runs golden cases: lw_golden [--update] FILE...
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/support/golden.h"

int main(int argc, char** argv) {
  bool update = false;
  int failed = 0, cases = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--update") == 0) {
      update = true;
      continue;
    }
    std::ifstream in(argv[i]);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      ++failed;
      continue;
    }
    ++cases;
    auto golden = loopwright::test::split_sections(text.str());
    const std::string wrong = loopwright::test::run_golden(golden, update);
    if (!wrong.empty()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], wrong.c_str());
      ++failed;
    } else if (update && golden.text() != text.str()) {
      std::ofstream(argv[i]) << golden.text();
    }
  }
  if (cases == 0 && failed == 0) {
    std::fprintf(stderr, "usage: lw_golden [--update] FILE...\n");
    return 2;
  }
  return failed == 0 ? 0 : 1;
}
