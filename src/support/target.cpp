#include "loopwright/target.h"

#include <algorithm>

#include "src/support/text.h"

namespace loopwright {

namespace {

bool is_word(std::string_view w) {
  return !w.empty() && std::all_of(w.begin(), w.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

struct GpuLimits {
  std::string_view arch;
  std::int32_t capability, sms, threads_per_sm;
  std::int64_t shared_kib_per_block, shared_kib_per_sm, l2_mib;
};
/// SMs and L2 are of the largest common product of the architecture: a live device says its own.
constexpr GpuLimits kGpus[] = {
    {"sm_80", 80, 108, 2048, 163, 164, 40},
    {"sm_86", 86, 84, 1536, 99, 100, 6},
    {"sm_89", 89, 128, 1536, 99, 100, 72},
    {"sm_90", 90, 132, 2048, 227, 228, 50},
    {"sm_90a", 90, 132, 2048, 227, 228, 50},
};

const GpuLimits* find_gpu(std::string_view arch) {
  for (const GpuLimits& g : kGpus)
    if (g.arch == arch) return &g;
  return nullptr;
}

std::string all_gpus() {
  std::string out;
  for (const GpuLimits& g : kGpus) out += (out.empty() ? "" : ", ") + std::string(g.arch);
  return out;
}

/// The limits that follow from the architecture of a GPU, from the features of a CPU.
void set_default_limits(Target& t) {
  if (t.kind == TargetKind::cuda) {
    const GpuLimits& g = *find_gpu(t.arch);
    t.vector_bytes = 16;
    t.vector_registers = 255;
    t.workers = g.sms;
    t.l1_bytes = g.shared_kib_per_block << 10;
    t.l2_bytes = g.l2_mib << 20;
    t.max_threads_per_block = 1024;
    t.capability = g.capability;
    t.max_threads_per_sm = g.threads_per_sm;
    t.shared_bytes_per_sm = g.shared_kib_per_sm << 10;
    return;
  }
  t.vector_bytes = t.has("avx512f") ? 64 : t.has("avx") || t.has("avx2") ? 32 : 16;
  t.vector_registers = t.has("avx512f") ? 32 : 16;
}

Error malformed(std::string_view text, std::string found) {
  return {ErrorCode::syntax,
          "read a target",
          std::move(found) + " in `" + std::string(text) + "`",
          {},
          "kind:arch or kind:arch:+feature,+feature, e.g. cpu:x86-64-v3:+avx2,+fma"};
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

bool Target::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::string Target::text() const {
  std::string out = kind == TargetKind::cpu ? "cpu:" : "cuda:";
  out += arch;
  std::vector<std::string> sorted = features;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) out += (i ? ",+" : ":+") + sorted[i];
  return out;
}

Result<Target> Target::parse(std::string_view text) {
  const std::vector<std::string_view> parts = split_at(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return malformed(text, std::to_string(parts.size()) + " parts");
  Target t;
  if (parts[0] == "cuda") t.kind = TargetKind::cuda;
  else if (parts[0] != "cpu") return malformed(text, "kind `" + std::string(parts[0]) + "`");
  if (!is_word(parts[1])) return malformed(text, "architecture `" + std::string(parts[1]) + "`");
  t.arch = parts[1];
  if (t.kind == TargetKind::cuda && find_gpu(t.arch) == nullptr)
    return Error{ErrorCode::unsupported_target, "read the target `" + std::string(text) + "`",
                 "there is no data of architecture `" + t.arch + "`", {}, all_gpus()};
  if (parts.size() == 3)
    for (const std::string_view f : split_at(parts[2], ',')) {
      if (f.size() < 2 || f[0] != '+' || !is_word(f.substr(1)))
        return malformed(text, "feature `" + std::string(f) + "`");
      t.features.emplace_back(f.substr(1));
    }
  std::sort(t.features.begin(), t.features.end());
  t.features.erase(std::unique(t.features.begin(), t.features.end()), t.features.end());
  set_default_limits(t);
  return t;
}

}  // namespace loopwright
