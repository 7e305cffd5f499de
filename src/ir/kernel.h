// A kernel: parameters, symbols, assumptions and a body, at one of four levels.
#pragma once

#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/shape.h"
#include "src/ir/nodes.h"

namespace loopwright::ir {

/// What a kernel may contain; `verify` holds the details.
///   naive      serial loops from the op definitions
///   scheduled  anything a schedule step produces
///   flat       one-dimensional accesses, unrolled loops expanded, tails separated
///   emittable  only what a backend prints one to one
enum class Level : std::uint8_t { naive, scheduled, flat, emittable };
std::string_view name(Level level);
std::string_view name(LoopKind kind);
std::string_view name(Memory memory);

/// What loads of an input ask of a GPU's caches: no line of the first level; there and in the second level the first lines, or the
/// last ones, that are let go.
enum class CachePolicy : std::uint8_t { normal, no_allocate, evict_first, evict_last };
std::string_view name(CachePolicy policy);

struct Param {
  Buffer buffer;
  ArgRole role = ArgRole::input;  ///< input, output, inout
  bool is_streamed = false;       ///< of an output: stores go past the caches where the target can do so
  CachePolicy cache = CachePolicy::normal;  ///< of an input that the kernel does not write
};

/// A symbol's value inside the kernel is the variable.
struct SymbolParam {
  Symbol symbol;
  Var var;
};

struct Kernel {
  std::string name;
  Level level = Level::naive;
  std::vector<Param> params;
  std::vector<SymbolParam> symbols;
  Guard guard;                           ///< what may be assumed beyond the symbols' ranges
  bool contract = true;                  ///< a*b+c may become one rounding (fused multiply-add)
  Accuracy accuracy = Accuracy::strict;  ///< what steps may do beyond that
  Stmt body;                             ///< Alloc of Memory::global inside it becomes workspace
};

/// The IR expression of a Dim, with the kernel's variables for its symbols. A symbol without a variable is a Bug.
Expr to_expr(const Dim& dim, const std::vector<SymbolParam>& symbols);
/// The closed form of an expression over symbols, for the runtime; empty when it holds anything but integer arithmetic
/// over the kernel's symbols.
std::optional<SizeExpr> to_size_expr(const Expr& e, const std::vector<SymbolParam>& symbols);

}  // namespace loopwright::ir
