// Databases in order of importance, and what they hold for this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/runtime/device.h"

namespace loopwright::runtime {

/// One database of several; `query` is empty when it could not be opened.
struct Layer {
  std::string path;
  std::optional<db::Query> query;
  std::string note;  ///< opened, or why not and what is done instead
};

/// Never fails: what is wrong is in the notes.
std::vector<Layer> open_layers(const std::vector<std::string>& paths);

/// The first plan of that name or graph digest that can be read; not_found lists what there is.
Result<PlanSpec> find_plan(const std::vector<Layer>& layers, const std::string& name_or_digest);

/// Whether some variant serves every size of the plan and every address.
bool has_general(const std::vector<Variant>& variants, const PlanKernel& kernel,
                 const std::vector<Symbol>& symbols);

/// What was found for one kernel.
struct KernelVariants {
  std::vector<Variant> variants;   ///< most preferred first
  std::vector<std::string> notes;  ///< what was left out, and why
  std::string workload_text;       ///< empty when no database has it
  std::size_t stand_ins = 0;       ///< how many of the last variants are tuned ones outside their tuned range
};

/// Rows of all layers merged: tuned before untuned, then those of the kernel's own accuracy before strict ones, then better matches, then what is not stale, then nearer devices, then
/// earlier layers, then the order within a file (narrow ranges first). Of equal guards and matches only the first is kept. Binaries that came from another
/// machine's database are never loaded.
class Lookup {
 public:
  Lookup(const std::vector<Layer>& layers, const Device& device) : layers_(layers), device_(device) {}
  /// `symbols` are the plan's.
  KernelVariants find_variants(const PlanKernel& kernel, const std::vector<Symbol>& symbols,
                               OnMiss on_miss) const;
  /// What the databases say about one kernel at these sizes: verdicts and the alternatives measured nearest to them.
  std::string explain(const PlanKernel& kernel, const Bindings& values) const;

 private:
  struct Found;
  /// Rows of `workload`, which is the kernel's own or the strict one.
  void read_layer(const Layer& layer, const PlanKernel& kernel, const std::string& workload,
                  std::vector<Found>& found, KernelVariants& out) const;
  static void add_stand_ins(const std::vector<Found>& tuned, KernelVariants& out);
  void add_compiled(KernelVariants& out) const;
  std::string explain_workload(const db::Query& query, const std::string& workload,
                               const Bindings& values) const;

  const std::vector<Layer>& layers_;
  const Device& device_;
};

}  // namespace loopwright::runtime
