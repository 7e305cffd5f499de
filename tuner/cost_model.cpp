#include "tuner/cost_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#if __has_include(<xgboost/c_api.h>)
#include <xgboost/c_api.h>
#define LW_HAS_XGBOOST 1
#else
#define LW_HAS_XGBOOST 0
#endif

namespace loopwright::tuner {
namespace {

#if LW_HAS_XGBOOST

constexpr int kRounds = 40;
constexpr std::size_t kLeastSamples = 12;
constexpr float kFailedLabel = -6;  ///< log2 of relative speed given to candidates without a time

/// The functions of XGBoost's C interface that are used. Opened at run time: a program that never tunes does not load
/// it, and one that cannot find it tunes without a model.
struct Library {
  decltype(&XGDMatrixCreateFromMat) create_matrix = nullptr;
  decltype(&XGDMatrixSetFloatInfo) set_info = nullptr;
  decltype(&XGDMatrixFree) free_matrix = nullptr;
  decltype(&XGBoosterCreate) create_booster = nullptr;
  decltype(&XGBoosterFree) free_booster = nullptr;
  decltype(&XGBoosterSetParam) set_parameter = nullptr;
  decltype(&XGBoosterUpdateOneIter) update = nullptr;
  decltype(&XGBoosterPredict) predict = nullptr;
  std::string missing;

  static const Library& open() {
    static const Library library = load();
    return library;
  }

 private:
  static Library load() {
    Library l;
    void* handle = nullptr;
    for (const char* file : {"libxgboost.so.0", "libxgboost.so", "libxgboost.so.2", "libxgboost.so.3"}) {
      handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) break;
    }
    if (handle == nullptr) {
      l.missing = ::dlerror();
      return l;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, symbol));
      if (function == nullptr) l.missing = std::string(symbol) + " is missing in libxgboost";
    };
    find(l.create_matrix, "XGDMatrixCreateFromMat");
    find(l.set_info, "XGDMatrixSetFloatInfo");
    find(l.free_matrix, "XGDMatrixFree");
    find(l.create_booster, "XGBoosterCreate");
    find(l.free_booster, "XGBoosterFree");
    find(l.set_parameter, "XGBoosterSetParam");
    find(l.update, "XGBoosterUpdateOneIter");
    find(l.predict, "XGBoosterPredict");
    return l;
  }
};

class XgboostModel : public CostModel {
 public:
  explicit XgboostModel(const Library& library) : library_(library) {}
  ~XgboostModel() override { forget(); }
  std::string_view name() const override { return "xgboost"; }

  void train(const std::vector<std::vector<float>>& features, const std::vector<double>& times_ns) override {
    forget();
    double fastest = std::numeric_limits<double>::infinity();
    for (const double t : times_ns) fastest = std::min(fastest, t);
    if (features.size() < kLeastSamples || !std::isfinite(fastest)) return;
    std::vector<float> labels;
    for (const double t : times_ns) {
      labels.push_back(std::isfinite(t) ? std::max(kFailedLabel, static_cast<float>(std::log2(fastest / t))) : kFailedLabel);
    }
    DMatrixHandle matrix = make_matrix(features);
    if (matrix == nullptr) return;
    bool ok = library_.set_info(matrix, "label", labels.data(), labels.size()) == 0;
    ok = ok && library_.create_booster(&matrix, 1, &booster_) == 0;
    const std::pair<const char*, const char*> parameters[] = {
        {"objective", "reg:squarederror"}, {"max_depth", "5"}, {"eta", "0.2"}, {"min_child_weight", "1"},
        {"subsample", "0.9"}, {"seed", "7"}, {"nthread", "1"}, {"tree_method", "exact"}, {"verbosity", "0"}};
    for (const auto& [key, value] : parameters) ok = ok && library_.set_parameter(booster_, key, value) == 0;
    for (int i = 0; ok && i < kRounds; ++i) ok = library_.update(booster_, i, matrix) == 0;
    library_.free_matrix(matrix);
    if (!ok) forget();
  }

  std::vector<float> score(const std::vector<std::vector<float>>& features) const override {
    if (booster_ == nullptr || features.empty()) return {};
    DMatrixHandle matrix = make_matrix(features);
    if (matrix == nullptr) return {};
    bst_ulong count = 0;
    const float* scores = nullptr;
    std::vector<float> result;
    if (library_.predict(booster_, matrix, 0, 0, 0, &count, &scores) == 0) result.assign(scores, scores + count);
    library_.free_matrix(matrix);
    return result.size() == features.size() ? result : std::vector<float>{};
  }

 private:
  DMatrixHandle make_matrix(const std::vector<std::vector<float>>& features) const {
    std::vector<float> flat;
    for (const auto& row : features) flat.insert(flat.end(), row.begin(), row.end());
    DMatrixHandle matrix = nullptr;
    const int failed = library_.create_matrix(flat.data(), features.size(), features.front().size(),
                                              std::numeric_limits<float>::quiet_NaN(), &matrix);
    return failed == 0 ? matrix : nullptr;
  }
  void forget() {
    if (booster_ != nullptr) library_.free_booster(booster_);
    booster_ = nullptr;
  }
  const Library& library_;
  BoosterHandle booster_ = nullptr;
};

#endif

std::vector<double> rank(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end + 1 < order.size() && values[order[end + 1]] == values[order[i]]) ++end;
    for (std::size_t j = i; j <= end; ++j) ranks[order[j]] = 0.5 * static_cast<double>(i + end);
    i = end + 1;
  }
  return ranks;
}

}  // namespace

std::unique_ptr<CostModel> make_xgboost_model([[maybe_unused]] std::string& why_not) {
#if LW_HAS_XGBOOST
  const Library& library = Library::open();
  if (library.missing.empty()) return std::make_unique<XgboostModel>(library);
  why_not = library.missing;
#else
  why_not = "built without XGBoost's headers";
#endif
  return nullptr;
}

double correlate_ranks(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || a.size() != b.size()) return 0;
  const auto x = rank(a), y = rank(b);
  const double middle = 0.5 * static_cast<double>(a.size() - 1);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace loopwright::tuner
