// Ranks candidates by features before anything is compiled.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace loopwright::tuner {

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string_view name() const = 0;
  /// `times_ns[i]` belongs to `features[i]`; what failed has an infinite time. Forgets earlier training.
  virtual void train(const std::vector<std::vector<float>>& features, const std::vector<double>& times_ns) = 0;
  /// Higher is faster; empty before there is enough to learn from.
  virtual std::vector<float> score(const std::vector<std::vector<float>>& features) const = 0;
};

/// Gradient-boosted trees on the logarithm of speed, by XGBoost, which is opened at run time. Null, with the reason in
/// `why_not`, when the library is missing or the build had no headers. Deterministic.
std::unique_ptr<CostModel> make_xgboost_model(std::string& why_not);

/// Rank correlation (Spearman) of two lists of the same length; how good a model's ranking was.
double correlate_ranks(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace loopwright::tuner
