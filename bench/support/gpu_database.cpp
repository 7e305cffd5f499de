#include "bench/support/gpu_database.h"

#include <algorithm>

#include "src/runtime/plan.h"

namespace loopwright::bench {

Result<Database> Database::open(const std::string& path) {
  LW_TRY(db::Query query, db::Query::open(path));
  return Database(std::move(query));
}

double Database::find_error(const std::string& workload, const std::string& label) const {
  double worst = -1;
  const auto candidates = query_.list_candidates(workload);
  if (!candidates.ok()) return worst;
  for (const db::CandidateRow& candidate : *candidates) {
    const std::string picks = candidate.picks.empty() || candidate.picks == "{}" ? "" : " " + candidate.picks;
    if (candidate.template_name + picks != label) continue;
    const auto verifications = query_.list_verifications(candidate.digest);
    if (!verifications.ok()) continue;
    for (const db::VerificationRow& v : *verifications) worst = std::max(worst, v.max_rel_error);
  }
  return worst;
}

std::set<Bindings> Database::probes_of(const std::string& workload) const {
  std::set<Bindings> out;
  if (const auto probes = query_.list_probes(workload); probes.ok())
    for (const db::ProbeRow& probe : *probes) out.insert(probe.values);
  return out;
}

Result<std::vector<Plan>> Database::rivals_of(const PlanSpec& spec, const std::shared_ptr<const runtime::Device>& device) const {
  std::vector<Plan> out;
  if (spec.kernels.size() != 1) return out;
  LW_TRY(const auto candidates, query_.list_candidates(spec.kernels.front().workload));
  for (const db::CandidateRow& candidate : candidates) {
    LW_TRY(const auto artifacts, query_.list_artifacts(candidate.digest));
    for (const db::ArtifactRow& row : artifacts) {
      auto artifact = query_.load_artifact(row.digest);
      if (!artifact.ok()) continue;
      runtime::PlanParts parts;
      parts.device = device;
      parts.spec = spec;
      parts.variants = {{Variant{.guard = {}, .artifact = std::make_shared<const Artifact>(std::move(*artifact)), .label = candidate.template_name}}};
      if (auto plan = runtime::PlanAccess::make(std::move(parts)); plan.ok()) out.push_back(std::move(*plan));
    }
  }
  return out;
}

}  // namespace loopwright::bench
