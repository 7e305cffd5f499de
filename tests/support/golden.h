// Golden cases: one text file a behaviour, made of sections that open with `---`. docs/golden.md describes them.
#pragma once

#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::test {

struct Section {
  std::string name;      ///< first word behind `---`
  std::string argument;  ///< the rest of that line
  std::string body;
  int line = 0;
};

struct Golden {
  std::string comment;  ///< lines in front of the first section, with their `#`
  std::vector<Section> sections;
  const Section* find(const std::string& name) const;
  std::string text() const;
};
Golden split_sections(const std::string& text);

/// Runs every section of a case; empty on success, else what is wrong. With `update`, `expect` sections are brought up to
/// date in `golden` instead of compared.
std::string run_golden(Golden& golden, bool update);

}  // namespace loopwright::test
