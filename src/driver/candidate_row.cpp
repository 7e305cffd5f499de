#include "src/driver/candidate_row.h"

#include <nlohmann/json.hpp>

#include "db/canonical.h"

namespace loopwright::driver {

db::CandidateRow make_candidate_row(const std::string& workload, const std::string& template_name, const Picks& picks,
                                    const std::string& trace, bool is_default) {
  nlohmann::json object = nlohmann::json::object();
  for (const Pick& p : picks) object[p.name] = p.value;
  db::CandidateRow row{.workload = workload, .template_name = template_name, .picks = object.dump(), .trace = trace,
                       .is_default = is_default};
  row.digest = db::compute_digest(row);
  return row;
}

}  // namespace loopwright::driver
