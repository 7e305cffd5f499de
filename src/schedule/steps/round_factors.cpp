#include "src/schedule/steps/round_factors.h"

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

Result<Applied> apply(const ir::Kernel& k, const RoundFactors& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const char* works = "a loop around a sum of products of two f32 buffers, in a kernel with `accuracy tf32`";
  if (k.accuracy != Accuracy::tf32)
    return rejected(ErrorCode::illegal_tensorize, "the kernel's accuracy is " + std::string(name(k.accuracy)),
                    k, site.stmt(), works);
  bool rounded = false;
  const Stmt body = ir::rewrite(
      site.loop().body, [](const Expr& e) { return e; },
      [&](const Stmt& s) {
        const auto* u = as<ir::Update>(s);
        const auto* times =
            u != nullptr && u->monoid == ir::Monoid::sum ? as<ir::Binary>(u->values[0]) : nullptr;
        if (times == nullptr || times->op != ir::BinaryOp::mul || times->a->dtype != DType::f32 ||
            !as<ir::Load>(times->a) || !as<ir::Load>(times->b))
          return s;
        rounded = true;
        return ir::update(
            ir::Monoid::sum, u->buffers, u->index,
            {ir::unary(ir::UnaryOp::round_tf32, times->a) * ir::unary(ir::UnaryOp::round_tf32, times->b)});
      });
  if (!rounded)
    return rejected(ErrorCode::illegal_tensorize, "no sum of products of two f32 values that are loaded", k,
                    site.stmt(), works);
  return Applied{edit(k, {{site.stmt().get(), with_body(site.stmt(), body)}}), {}};
}

}  // namespace loopwright::schedule
