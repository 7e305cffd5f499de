#include "tuner/builder.h"

#include "src/ir/text.h"
#include "src/support/digest.h"
#include "tuner/features.h"

namespace loopwright::tuner {
namespace {

class DriverBuilder : public Builder {
 public:
  DriverBuilder(const driver::Job& job, Target target)
      : job_(job), target_(std::move(target)), templates_(driver::templates_for(job, target_)) {}

  int template_count() const override { return static_cast<int>(templates_.size()); }
  std::string template_name(int index) const override { return templates_[index]->name; }

  Result<Prepared> prepare(int template_index, Space& space, const Bindings& probe) const override {
    LW_TRY(const driver::Scheduled scheduled, driver::run_template(job_, *templates_[template_index], space, target_));
    LW_TRY(ir::Kernel lowered, driver::lower_kernel(scheduled.kernel, target_));
    Prepared p{.template_index = template_index, .template_name = scheduled.template_name, .choices = space.choices(),
               .trace = scheduled.trace};
    p.kernel_digest = sha256_hex(ir::print(lowered));
    p.features = extract_features(lowered, target_, probe);
    p.kernel = std::make_shared<ir::Kernel>(std::move(lowered));
    return p;
  }

  Result<Prepared> replay(const std::string& trace) const override {
    LW_TRY(const driver::Scheduled scheduled, driver::replay(job_, trace));
    LW_TRY(ir::Kernel lowered, driver::lower_kernel(scheduled.kernel, target_));
    Prepared p{.trace = trace, .kernel_digest = sha256_hex(ir::print(lowered))};
    p.kernel = std::make_shared<ir::Kernel>(std::move(lowered));
    return p;
  }

  Result<std::shared_ptr<const Artifact>> compile(const Prepared& prepared) const override {
    LW_TRY(Artifact artifact, driver::compile_kernel(*static_cast<const ir::Kernel*>(prepared.kernel.get()), target_));
    return std::shared_ptr<const Artifact>(std::make_shared<Artifact>(std::move(artifact)));
  }

 private:
  const driver::Job& job_;
  Target target_;
  std::vector<const Template*> templates_;
};

}  // namespace

Picks Prepared::picks() const {
  Picks picks;
  for (const Space::Choice& c : choices) picks.push_back(c.pick);
  return picks;
}

std::unique_ptr<Builder> make_driver_builder(const driver::Job& job, const Target& target) {
  return std::make_unique<DriverBuilder>(job, target);
}

Outcome classify_build_error(ErrorCode code) {
  if (code == ErrorCode::resource_exceeded || code == ErrorCode::too_large || code == ErrorCode::out_of_memory) {
    return Outcome::resource;
  }
  const auto number = static_cast<int>(code);
  return number >= 200 && number < 300 ? Outcome::rejected : Outcome::compile_error;
}

}  // namespace loopwright::tuner
