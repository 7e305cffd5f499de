// Kernels as text, both ways: parse_kernel(print(k)) prints the same text again.
#pragma once

#include <string>

#include "src/ir/kernel.h"

namespace loopwright::ir {

/// Canonical text. Variables and buffers print as their hints, made unique with a numeric suffix where they clash.
std::string print(const Kernel& k);
std::string print(const Stmt& s);
std::string print(const Expr& e);
/// The kernel text with `> ` in front of every line that belongs to `marked`, and two blanks before the others.
std::string print_marked(const Kernel& k, const Stmt& marked);
/// True for words of the expression grammar, which can name neither a parameter nor a symbol: `and`, `or`, `true`,
/// `false`, `inf_f32`, ...
bool is_reserved_name(std::string_view text);
/// Errors carry line, column and what was expected.
Result<Kernel> parse_kernel(std::string_view text);

}  // namespace loopwright::ir
