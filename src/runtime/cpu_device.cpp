#include "src/runtime/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "loopwright/runtime.h"
#include "src/runtime/fast_size.h"
#include "src/runtime/host_cpu.h"
#include "src/runtime/thread_memory.h"
#include "src/support/text.h"

namespace loopwright::runtime {
namespace {

class CpuLoaded final : public LoadedArtifact {
 public:
  struct Step {
    CpuEntry entry;
    FastSize extent;
  };

  CpuLoaded(CodeMapping code, const Artifact& artifact) : code_(std::move(code)) {
    for (const Launch& launch : artifact.launches) {
      const auto& cpu = std::get<CpuLaunch>(launch);
      const auto* address = code_.base() + cpu.entry_offset;
      CpuEntry entry = nullptr;
      std::memcpy(&entry, &address, sizeof entry);
      steps.push_back({entry, FastSize(cpu.extent)});
      scratch_bytes_.push_back(cpu.scratch_bytes);
    }
  }
  std::vector<Step> steps;

 private:
  CodeMapping code_;
};

using Unary = double (*)(double);
using Binary = double (*)(double, double);
template <class Function>
const void* address_of(Function function) {
  return reinterpret_cast<const void*>(function);
}
static_assert(kCpuCallees.size() == 20, "a new callee needs its address here");
const std::array<const void*, kCpuCallees.size()> callees = {
    address_of<Unary>(std::exp),    address_of<Unary>(std::exp2),  address_of<Unary>(std::log),
    address_of<Unary>(std::log2),   address_of<Unary>(std::log1p), address_of<Unary>(std::expm1),
    address_of<Unary>(std::sin),    address_of<Unary>(std::cos),   address_of<Unary>(std::tan),
    address_of<Unary>(std::asin),   address_of<Unary>(std::acos),  address_of<Unary>(std::atan),
    address_of<Unary>(std::sinh),   address_of<Unary>(std::cosh),  address_of<Unary>(std::tanh),
    address_of<Unary>(std::erf),    address_of<Unary>(std::cbrt),  address_of<Binary>(std::pow),
    address_of<Binary>(std::atan2), address_of<Binary>(std::fmod)};

struct ParallelCall {
  CpuEntry entry;
  const KernelCall* call;
};

void run_piece(const void* context, int worker, std::int64_t begin, std::int64_t end) noexcept {
  const auto& parallel = *static_cast<const ParallelCall*>(context);
  const KernelCall& call = *parallel.call;
  const CpuCall cpu{call.buffers, call.symbols, call.scratch + worker * call.scratch_stride_bytes,
                    callees.data()};
  parallel.entry(&cpu, begin, end);
}

Error bad_image(const Artifact& artifact, std::string found) {
  return {ErrorCode::bad_artifact, "load an artifact for " + artifact.target, std::move(found), "",
          "delete the artifact; it is made again from its trace"};
}

}  // namespace

Result<CodeMapping> CodeMapping::map(const std::vector<std::uint8_t>& image) {
  const auto failed = [](const char* call) {
    return Error{ErrorCode::out_of_memory, "map machine code",
                 std::string(call) + ": " + std::strerror(errno), "",
                 "a system that lets programs make memory executable, and free memory"};
  };
  CodeMapping mapping;
  void* base = mmap(nullptr, image.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return failed("mmap");
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.bytes_ = image.size();
  std::memcpy(base, image.data(), image.size());
  if (mprotect(base, image.size(), PROT_READ | PROT_EXEC) != 0) return failed("mprotect");
  return mapping;
}

CodeMapping::CodeMapping(CodeMapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

CodeMapping& CodeMapping::operator=(CodeMapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CodeMapping::~CodeMapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

CpuDevice::CpuDevice(int workers) : target_(host_target()), pool_(workers > 0 ? workers : target_.workers) {
  target_.workers = pool_.workers();
}

db::DeviceRow CpuDevice::fingerprint() const {
  const HostCpu& host = host_cpu();
  db::DeviceRow row;
  row.kind = "cpu";
  row.arch = host.arch;
  row.features = text::join(host.features, " ");
  row.cores = host.cores;
  row.vendor = host.vendor;
  row.model = host.model;
  row.target = target_.text();
  row.threads = target_.workers;
  row.l1_bytes = host.l1_bytes;
  row.l2_bytes = host.l2_bytes;
  row.l3_bytes = host.l3_bytes;
  row.clock_khz = host.clock_khz;
  return row;
}

Result<std::shared_ptr<const LoadedArtifact>> CpuDevice::load(const Artifact& artifact) const {
  LW_CHECK(check_runs_on(target_, artifact.target));
  if (artifact.image.empty()) return bad_image(artifact, "no machine code");
  if (artifact.launches.empty()) return bad_image(artifact, "no launches");
  for (const Launch& launch : artifact.launches) {
    const auto* cpu = std::get_if<CpuLaunch>(&launch);
    if (cpu == nullptr) return bad_image(artifact, "a launch for another kind of device");
    if (cpu->entry_offset >= artifact.image.size())
      return bad_image(artifact, "entry at " + std::to_string(cpu->entry_offset) + " in an image of " +
                                     std::to_string(artifact.image.size()) + " bytes");
  }
  LW_TRY(CodeMapping code, CodeMapping::map(artifact.image));
  return std::shared_ptr<const LoadedArtifact>(std::make_shared<CpuLoaded>(std::move(code), artifact));
}

std::byte* CpuDevice::reserve(MemoryKind kind, std::int64_t bytes, void*) const noexcept {
  return reserve_thread_memory(kind == MemoryKind::arena ? ThreadBlock::arena : ThreadBlock::zeroed, bytes);
}

ErrorCode CpuDevice::launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept {
  for (const CpuLoaded::Step& step : static_cast<const CpuLoaded&>(loaded).steps) {
    const std::int64_t extent = step.extent.evaluate(call.symbols);
    if (extent <= 0) continue;
    if (extent == 1 || pool_.workers() == 1) {
      const CpuCall cpu{call.buffers, call.symbols, call.scratch, callees.data()};
      step.entry(&cpu, 0, extent);
    } else {
      const ParallelCall parallel{step.entry, &call};
      pool_.run(extent, run_piece, &parallel);
    }
  }
  return ErrorCode::ok;
}

std::shared_ptr<const Device> shared_cpu_device() {
  static const std::shared_ptr<const Device> device = make_cpu_device(0);
  return device;
}

std::shared_ptr<const Device> make_cpu_device(int workers) { return std::make_shared<CpuDevice>(workers); }

}  // namespace loopwright::runtime
