#include "src/schedule/rejection.h"

#include "src/support/text.h"

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

namespace {

std::string loop_names(const ir::Kernel& k) {
  std::vector<std::string> names;
  ir::walk(
      k.body,
      [&](const Stmt& s) {
        if (const auto* l = as<ir::Loop>(s)) names.push_back(l->var.hint);
      },
      [](const ir::Expr&) {});
  return names.empty() ? "none" : text::join(names, ", ");
}

std::string buffer_names(const ir::Kernel& k, bool params) {
  std::vector<std::string> names;
  if (params)
    for (const ir::Param& p : k.params) names.push_back(p.buffer->name);
  ir::walk(
      k.body,
      [&](const Stmt& s) {
        if (const auto* a = as<ir::Alloc>(s)) names.push_back(a->buffer->name);
      },
      [](const ir::Expr&) {});
  return names.empty() ? "none" : text::join(names, ", ");
}

}  // namespace

Result<Site> require_loop(const ir::Kernel& k, const std::string& name) {
  if (auto site = find_loop(k, name)) return *site;
  return rejected(ErrorCode::unknown_loop, "no loop is named `" + name + "`", {},
                  "a loop of the kernel: " + loop_names(k));
}

Result<Site> require_serial(const ir::Kernel& k, const std::string& name, bool unrolled) {
  LW_TRY(Site site, require_loop(k, name));
  const ir::LoopKind kind = site.loop().kind;
  if (kind == ir::LoopKind::serial || (unrolled && kind == ir::LoopKind::unroll)) return site;
  return rejected(ErrorCode::bad_argument, "loop `" + name + "` is " + std::string(ir::name(kind)) + " already",
                  k, site.stmt(), "this step before `" + std::string(ir::name(kind)) + " " + name + "`");
}

Result<ir::Buffer> require_buffer(const ir::Kernel& k, const std::string& name) {
  if (ir::Buffer buffer = find_buffer(k, name)) return buffer;
  return rejected(ErrorCode::unknown_buffer, "no buffer is named `" + name + "`", {},
                  "a buffer of the kernel: " + buffer_names(k, true));
}

Result<Site> require_intermediate(const ir::Kernel& k, const std::string& name, ErrorCode code) {
  LW_TRY(ir::Buffer buffer, require_buffer(k, name));
  if (auto site = find_alloc(k, name)) return *site;
  return rejected(code, "`" + buffer->name + "` is a parameter of the kernel", {},
                  "an intermediate: " + buffer_names(k, false));
}

const ir::Loop* vectorized_above(const Site& at) {
  for (const Stmt& s : at.path)
    if (const auto* l = as<ir::Loop>(s); l && l->kind == ir::LoopKind::vectorize) return l;
  return nullptr;
}

Status require_room(const ir::Kernel& k, const Site& at, Place place, ErrorCode code) {
  LW_CHECK(require_no_lanes(k, at, code));
  if (place != Place::global) return Unit{};
  for (const Stmt& s : at.path)
    if (const auto* l = as<ir::Loop>(s); l && (l->kind == ir::LoopKind::parallel || ir::is_grid(l->kind)))
      return rejected(code,
                      "loop `" + l->var.hint + "` is " + std::string(ir::name(l->kind)) + ", and its iterations would share global memory",
                      k, s, "place shared or registers");
  return Unit{};
}

Status require_no_lanes(const ir::Kernel& k, const Site& at, ErrorCode code) {
  const ir::Loop* v = vectorized_above(at);
  if (!v) return Unit{};
  return rejected(code, "loop `" + v->var.hint + "` is vectorized and must stay innermost", k, at.stmt(),
                  "this step before `vectorize " + v->var.hint + "`, or a loop outside it");
}

}  // namespace loopwright::schedule
