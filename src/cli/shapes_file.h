// A file that says how often each shape is used.
#pragma once

#include <string>
#include <vector>

#include "loopwright/tune.h"

namespace loopwright::cli {

/// Two forms, told apart by the `=`: a log with words such as `tokens=17 batch=4` a line, or a table with the names of the
/// columns in its first line and values below. Commas, semicolons and blanks separate; `count` is how often (1 where it
/// is not given); `#` begins a comment. Other names than the symbols' are not looked at. Equal shapes are added up, and of
/// very many the most used are kept. syntax, unknown_name and out_of_range name file and line.
Result<std::vector<ShapeCount>> read_shape_counts(const std::string& path, const std::vector<Symbol>& symbols);

}  // namespace loopwright::cli
