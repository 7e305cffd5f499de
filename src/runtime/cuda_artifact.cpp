#include "src/runtime/cuda_artifact.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace loopwright::runtime {
namespace {

/// More than this per block has to be allowed for each kernel.
constexpr std::int64_t kPlainSharedBytes = 48 << 10;
/// Larger clusters do not run on every GPU of the architecture and have to be allowed.
constexpr int kPortableCluster = 8;
constexpr int kLargestCluster = 16;

/// The driver is told no size: what it reads must lie in the image. Either an ELF file whose tables and sections are all
/// there, or text with a zero behind it.
bool is_whole(const std::vector<std::uint8_t>& image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
    return image.back() == 0;
  std::memcpy(&header, image.data(), sizeof header);
  const auto holds = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= image.size() && bytes <= image.size() - offset;
  };
  if (header.e_shentsize != sizeof(Elf64_Shdr) ||
      !holds(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize) ||
      !holds(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize))
    return false;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !holds(section.sh_offset, section.sh_size)) return false;
  }
  return true;
}

Error refuse(const Artifact& artifact, std::string found, ErrorCode code = ErrorCode::bad_artifact,
             std::string works = "delete the artifact; it is made again from its trace") {
  return {code, "load an artifact for " + artifact.target, std::move(found), "", std::move(works)};
}

}  // namespace

CudaArtifact::~CudaArtifact() {
  const CurrentContext current(driver_, context_);
  if (library_ != nullptr && current.status() == cuda::kSuccess) driver_.unload_library(library_);
}

Result<std::shared_ptr<const CudaArtifact>> CudaArtifact::load(const CudaDriver& driver, const CudaInfo& info,
                                                               cuda::Context context,
                                                               const Artifact& artifact) {
  if (artifact.image.empty()) return refuse(artifact, "no machine code");
  if (!is_whole(artifact.image)) return refuse(artifact, "machine code that is cut short or damaged");
  if (artifact.launches.empty()) return refuse(artifact, "no launches");
  if (artifact.args.size() + artifact.symbols.size() > kMaxCudaParameters)
    return refuse(artifact, std::to_string(artifact.args.size() + artifact.symbols.size()) +
                                " parameters, more than " + std::to_string(kMaxCudaParameters));
  const CurrentContext current(driver, context);
  if (current.status() != cuda::kSuccess)
    return refuse(artifact, driver.describe(current.status()), ErrorCode::launch_failed,
                  "a process that is started again");
  std::shared_ptr<CudaArtifact> loaded(new CudaArtifact(driver, context));
  loaded->buffer_count_ = artifact.args.size();
  loaded->symbol_count_ = artifact.symbols.size();
  const cuda::Status status =
      driver.load_library(&loaded->library_, artifact.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (status != cuda::kSuccess) {
    loaded->library_ = nullptr;
    const bool out_of_memory = status == cuda::kOutOfMemory;
    return refuse(
        artifact, driver.describe(status), out_of_memory ? ErrorCode::out_of_memory : ErrorCode::bad_artifact,
        out_of_memory ? "free device memory"
                      : "code made for this GPU by a CUDA compiler that is not newer than the driver, which "
                        "knows CUDA " +
                            driver.version_text());
  }
  loaded->steps_.reserve(artifact.launches.size());
  for (const Launch& launch : artifact.launches) {
    const auto* cuda = std::get_if<CudaLaunch>(&launch);
    if (cuda == nullptr) return refuse(artifact, "a launch for another kind of device");
    LW_CHECK(loaded->add_step(info, artifact, *cuda));
  }
  // Only now do the steps stay where they are.
  for (Step& step : loaded->steps_) step.config.attributes = step.attributes.data();
  return std::shared_ptr<const CudaArtifact>(std::move(loaded));
}

Status CudaArtifact::add_step(const CudaInfo& info, const Artifact& artifact, const CudaLaunch& launch) {
  const std::string entry = "the entry " + launch.entry;
  cuda::Kernel kernel = nullptr;
  if (driver_.get_kernel(&kernel, library_, launch.entry.c_str()) != cuda::kSuccess)
    return refuse(artifact, "no entry " + launch.entry + " in the machine code");
  Step step;
  if (const cuda::Status status = driver_.get_function(&step.function, kernel); status != cuda::kSuccess)
    return refuse(artifact, driver_.describe(status), ErrorCode::resource_exceeded,
                  "code for this GPU, and free device memory");
  std::size_t offset = 0, bytes = 0;
  auto maps = TensorMaps::make(driver_, artifact, launch);
  if (!maps.ok()) return refuse(artifact, entry + " with " + maps.error().found, maps.error().code, maps.error().works);
  step.maps = std::move(*maps);
  step.takes_overlap = launch.takes_overlap;
  const std::size_t parameters = buffer_count_ + symbol_count_ + step.maps.size() + (step.takes_overlap ? 1 : 0);
  if (driver_.parameter_info != nullptr &&
      ((parameters > 0 &&
        driver_.parameter_info(kernel, parameters - 1, &offset, &bytes) != cuda::kSuccess) ||
       driver_.parameter_info(kernel, parameters, &offset, &bytes) == cuda::kSuccess))
    return refuse(artifact, entry + " does not take " + std::to_string(parameters) + " parameters");

  int most_threads = 0, fixed_shared = 0;
  driver_.kernel_attribute(&most_threads, cuda::kFunctionMaxThreads, kernel, info.ordinal);
  driver_.kernel_attribute(&fixed_shared, cuda::kFunctionSharedBytes, kernel, info.ordinal);
  std::int64_t threads = 1, cluster = 1;
  for (int d = 0; d < 3; ++d) {
    if (launch.block[d] < 1 || launch.cluster[d] < 1)
      return refuse(artifact, entry + " with a block or cluster below 1");
    threads *= launch.block[d];
    cluster *= launch.cluster[d];
    step.config.block[d] = static_cast<std::uint32_t>(launch.block[d]);
    step.grid[d] = FastSize(launch.grid[d]);
  }
  if (threads > most_threads)
    return refuse(artifact,
                  entry + " with blocks of " + std::to_string(threads) + " threads; it can have " +
                      std::to_string(most_threads),
                  ErrorCode::resource_exceeded, "smaller blocks");
  if (cluster > kLargestCluster)
    return refuse(artifact, entry + " with clusters of " + std::to_string(cluster) + " blocks",
                  ErrorCode::resource_exceeded, "at most " + std::to_string(kLargestCluster));
  step.shared_bytes = FastSize(launch.shared_bytes);
  const bool fixed_size = launch.shared_bytes.is_constant();
  const std::int64_t room = info.target->l1_bytes - fixed_shared;
  const std::int64_t shared = fixed_size ? launch.shared_bytes.evaluate(nullptr) : room;
  if (shared > room)
    return refuse(artifact,
                  entry + " with " + std::to_string(shared + fixed_shared) +
                      " bytes of shared memory; a block has " + std::to_string(info.target->l1_bytes),
                  ErrorCode::resource_exceeded, "smaller tiles");
  cuda::Status status = cuda::kSuccess;
  if (shared > kPlainSharedBytes)
    status = driver_.set_kernel_attribute(cuda::kFunctionMaxDynamicSharedBytes, static_cast<int>(shared),
                                          kernel, info.ordinal);
  if (status == cuda::kSuccess && cluster > kPortableCluster)
    status = driver_.set_kernel_attribute(cuda::kFunctionNonPortableCluster, 1, kernel, info.ordinal);
  if (status != cuda::kSuccess)
    return refuse(artifact, entry + ": " + driver_.describe(status), ErrorCode::resource_exceeded,
                  "smaller tiles or clusters");

  step.fixed = fixed_size;
  for (int d = 0; d < 3; ++d) {
    step.fixed = step.fixed && launch.grid[d].is_constant();
    if (launch.grid[d].is_constant())
      step.config.grid[d] = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(launch.grid[d].evaluate(nullptr), 0, UINT32_MAX));
  }
  if (fixed_size) step.config.shared_bytes = static_cast<std::uint32_t>(shared);
  int blocks = 0;
  if (driver_.occupancy != nullptr &&
      driver_.occupancy(&blocks, step.function, static_cast<int>(threads), static_cast<std::size_t>(shared)) == cuda::kSuccess)
    step.part_of_block = 1.0 / (std::max(blocks, 1) * info.target->workers);
  if (cluster > 1) {
    cuda::LaunchAttribute& attribute = step.attributes[step.config.attribute_count++];
    attribute.id = cuda::LaunchAttribute::cluster_dimension;
    for (int d = 0; d < 3; ++d) attribute.cluster[d] = static_cast<std::uint32_t>(launch.cluster[d]);
  }
  if (launch.programmatic_dependent || launch.takes_overlap) {
    step.has_edge = true;
    step.overlaps_in_flight_alone = !launch.programmatic_dependent;
    cuda::LaunchAttribute& attribute = step.attributes[step.config.attribute_count++];
    attribute.id = cuda::LaunchAttribute::programmatic_serialization;
    attribute.programmatic = 1;
    step.most_overlapped = static_cast<std::uint64_t>(kMostOverlappedBlocks * info.target->workers);
  }
  steps_.push_back(std::move(step));
  return Unit{};
}

}  // namespace loopwright::runtime
