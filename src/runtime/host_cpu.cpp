#include "src/runtime/host_cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace loopwright::runtime {
namespace {

enum Register { kEax, kEbx, kEcx, kEdx };
enum class Saved { none, ymm, zmm };  ///< register state that the operating system must save

struct FeatureRow {
  const char* name;
  unsigned leaf, subleaf;
  Register reg;
  int bit;
  Saved saved;
};
// The one list of features that code generation may use, with LLVM's spelling; sorted by name.
constexpr FeatureRow kFeatures[] = {
    {"avx", 1, 0, kEcx, 28, Saved::ymm},
    {"avx2", 7, 0, kEbx, 5, Saved::ymm},
    {"avx512bf16", 7, 1, kEax, 5, Saved::zmm},
    {"avx512bw", 7, 0, kEbx, 30, Saved::zmm},
    {"avx512cd", 7, 0, kEbx, 28, Saved::zmm},
    {"avx512dq", 7, 0, kEbx, 17, Saved::zmm},
    {"avx512f", 7, 0, kEbx, 16, Saved::zmm},
    {"avx512fp16", 7, 0, kEdx, 23, Saved::zmm},
    {"avx512vbmi", 7, 0, kEcx, 1, Saved::zmm},
    {"avx512vl", 7, 0, kEbx, 31, Saved::zmm},
    {"avx512vnni", 7, 0, kEcx, 11, Saved::zmm},
    {"avxvnni", 7, 1, kEax, 4, Saved::ymm},
    {"bmi", 7, 0, kEbx, 3, Saved::none},
    {"bmi2", 7, 0, kEbx, 8, Saved::none},
    {"f16c", 1, 0, kEcx, 29, Saved::ymm},
    {"fma", 1, 0, kEcx, 12, Saved::ymm},
    {"lzcnt", 0x80000001, 0, kEcx, 5, Saved::none},
    {"movbe", 1, 0, kEcx, 22, Saved::none},
    {"popcnt", 1, 0, kEcx, 23, Saved::none},
    {"sse3", 1, 0, kEcx, 0, Saved::none},
    {"sse4.1", 1, 0, kEcx, 19, Saved::none},
    {"sse4.2", 1, 0, kEcx, 20, Saved::none},
    {"ssse3", 1, 0, kEcx, 9, Saved::none},
};

struct ModelRow {
  char vendor;  ///< 'A' AMD, 'I' Intel
  unsigned family, first_model, last_model;
  int level;  ///< generic level that the name promises; a virtual machine that hides features does not get the name
  const char* name;
};
// LLVM's names by family and model, for the machines in use; what is missing falls back to a generic level.
constexpr ModelRow kModels[] = {
    {'A', 0x17, 0x00, 0x2f, 3, "znver1"},      {'A', 0x17, 0x30, 0xff, 3, "znver2"},
    {'A', 0x19, 0x10, 0x1f, 4, "znver4"},      {'A', 0x19, 0x60, 0x7f, 4, "znver4"},
    {'A', 0x19, 0xa0, 0xaf, 4, "znver4"},      {'A', 0x19, 0x00, 0x5f, 3, "znver3"},
    {'A', 0x1a, 0x00, 0x7f, 4, "znver5"},      {'I', 6, 0x3c, 0x3c, 3, "haswell"},
    {'I', 6, 0x3f, 0x3f, 3, "haswell"},        {'I', 6, 0x45, 0x46, 3, "haswell"},
    {'I', 6, 0x3d, 0x3d, 3, "broadwell"},      {'I', 6, 0x47, 0x47, 3, "broadwell"},
    {'I', 6, 0x4f, 0x4f, 3, "broadwell"},      {'I', 6, 0x56, 0x56, 3, "broadwell"},
    {'I', 6, 0x4e, 0x4e, 3, "skylake"},        {'I', 6, 0x5e, 0x5e, 3, "skylake"},
    {'I', 6, 0x8e, 0x8e, 3, "skylake"},        {'I', 6, 0x9e, 0x9e, 3, "skylake"},
    {'I', 6, 0xa5, 0xa6, 3, "skylake"},        {'I', 6, 0x55, 0x55, 4, "skylake-avx512"},
    {'I', 6, 0x6a, 0x6a, 4, "icelake-server"}, {'I', 6, 0x6c, 0x6c, 4, "icelake-server"},
    {'I', 6, 0x7d, 0x7e, 4, "icelake-client"}, {'I', 6, 0x8c, 0x8d, 4, "tigerlake"},
    {'I', 6, 0x8f, 0x8f, 4, "sapphirerapids"}, {'I', 6, 0xcf, 0xcf, 4, "emeraldrapids"},
    {'I', 6, 0xad, 0xad, 4, "graniterapids"},  {'I', 6, 0x97, 0x97, 3, "alderlake"},
    {'I', 6, 0x9a, 0x9a, 3, "alderlake"},      {'I', 6, 0xb7, 0xb7, 3, "raptorlake"},
    {'I', 6, 0xba, 0xba, 3, "raptorlake"},     {'I', 6, 0xbf, 0xbf, 3, "raptorlake"},
};

using Registers = std::array<unsigned, 4>;

Registers read_cpuid(unsigned leaf, unsigned subleaf) {
  Registers r{};
  if (!__get_cpuid_count(leaf, subleaf, &r[kEax], &r[kEbx], &r[kEcx], &r[kEdx])) return {};
  return r;
}

/// Register state that the operating system saves, from XCR0.
Saved read_saved_state() {
  if (!(read_cpuid(1, 0)[kEcx] >> 27 & 1)) return Saved::none;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 0xe6) == 0xe6) return Saved::zmm;
  return (low & 6) == 6 ? Saved::ymm : Saved::none;
}

std::vector<std::string> read_features() {
  const Saved saved = read_saved_state();
  std::vector<std::string> found;
  for (const FeatureRow& row : kFeatures)
    if (row.saved <= saved && (read_cpuid(row.leaf, row.subleaf)[row.reg] >> row.bit & 1))
      found.emplace_back(row.name);
  return found;
}

std::string read_vendor() {
  const Registers r = read_cpuid(0, 0);
  std::string text(12, '\0');
  std::memcpy(text.data(), &r[kEbx], 4);
  std::memcpy(text.data() + 4, &r[kEdx], 4);
  std::memcpy(text.data() + 8, &r[kEcx], 4);
  return text;
}

std::string read_brand() {
  std::string text;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers r = read_cpuid(leaf, 0);
    text.append(reinterpret_cast<const char*>(r.data()), sizeof r);
  }
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string find_arch(const std::string& vendor, const std::vector<std::string>& features) {
  const unsigned signature = read_cpuid(1, 0)[kEax];
  unsigned family = signature >> 8 & 0xf;
  unsigned model = signature >> 4 & 0xf;
  if (family == 6 || family == 0xf) model |= (signature >> 16 & 0xf) << 4;
  if (family == 0xf) family += signature >> 20 & 0xff;
  const char key = vendor == "AuthenticAMD" ? 'A' : vendor == "GenuineIntel" ? 'I' : '?';
  const int level = feature_level(features);
  for (const ModelRow& row : kModels) {
    if (row.vendor != key || row.family != family || model < row.first_model || model > row.last_model)
      continue;
    if (row.level > level) break;
    return row.name;
  }
  return level == 1 ? "x86-64" : "x86-64-v" + std::to_string(level);
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// `32K` → 32768; 0 when it cannot be read.
std::int64_t parse_cache_size(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const char unit = end == text.data() + text.size() ? ' ' : *end;
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : value;
}

std::int64_t ask_sysconf(int key) { return std::max<std::int64_t>(0, sysconf(key)); }

void read_caches(int cpu, HostCpu& host) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    const std::string level = read_line(folder + "level");
    if (level.empty()) break;
    if (read_line(folder + "type") == "Instruction") continue;
    const std::int64_t bytes = parse_cache_size(read_line(folder + "size"));
    if (level == "1") host.l1_bytes = bytes;
    if (level == "2") host.l2_bytes = bytes;
    if (level == "3") host.l3_bytes = bytes;
  }
  if (host.l1_bytes == 0) host.l1_bytes = ask_sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (host.l2_bytes == 0) host.l2_bytes = ask_sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (host.l3_bytes == 0) host.l3_bytes = ask_sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (host.l1_bytes == 0) host.l1_bytes = 32 << 10;
  if (host.l2_bytes == 0) host.l2_bytes = 512 << 10;
}

/// The numbers of the hardware threads this process may run on. Grows the mask for machines with more than 1024.
std::vector<int> read_affinity() {
  std::vector<int> cpus;
  for (int limit = 1024; limit <= 1 << 18; limit *= 4) {
    cpu_set_t* set = CPU_ALLOC(limit);
    const std::size_t bytes = CPU_ALLOC_SIZE(limit);
    const bool read = set != nullptr && sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; read && cpu < limit; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (read) break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int count_cores(const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = read_line(topology + "thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : std::move(siblings));
  }
  return static_cast<int>(cores.size());
}

/// The tightest quota on the way from this process's control group to the root; 0 = none.
int read_quota() {
  int tightest = 0;
  const auto consider = [&](int quota) {
    if (quota > 0) tightest = tightest == 0 ? quota : std::min(tightest, quota);
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("cpu") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (unified) consider(parse_cpu_quota(read_line(root + path + "/cpu.max")));
      else
        consider(parse_cpu_quota(read_line(root + path + "/cpu.cfs_quota_us") + " " +
                                 read_line(root + path + "/cpu.cfs_period_us")));
      if (path.find('/') == std::string::npos) break;
    }
  }
  return tightest;
}

HostCpu read_host() {
  HostCpu host;
  host.vendor = read_vendor();
  host.model = read_brand();
  host.features = read_features();
  host.arch = find_arch(host.vendor, host.features);
  const std::vector<int> cpus = read_affinity();
  host.threads = static_cast<int>(cpus.size());
  host.cores = count_cores(cpus);
  read_caches(cpus.front(), host);
  const std::string frequency =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpus.front()) + "/cpufreq/cpuinfo_max_freq";
  host.clock_khz = std::strtoll(read_line(frequency).c_str(), nullptr, 10);
  return host;
}

}  // namespace

const HostCpu& host_cpu() {
  static const HostCpu host = read_host();
  return host;
}

int count_workers() {
  if (const char* text = std::getenv("LOOPWRIGHT_WORKERS"); text != nullptr) {
    const long asked = std::strtol(text, nullptr, 10);
    if (asked >= 1) return static_cast<int>(std::min(asked, 4096L));
  }
  const int cores = count_cores(read_affinity());
  const int quota = read_quota();
  return std::max(1, quota == 0 ? cores : std::min(cores, quota));
}

int generic_level(const std::string& arch) {
  if (arch == "x86-64") return 1;
  if (arch.size() == 9 && arch.starts_with("x86-64-v") && arch[8] >= '1' && arch[8] <= '4')
    return arch[8] - '0';
  return 0;
}

int feature_level(const std::vector<std::string>& features) {
  static const std::vector<std::vector<const char*>> kLevels = {
      {"popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"},
      {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
      {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}};
  int level = 1;
  for (const auto& needed : kLevels) {
    for (const char* feature : needed)
      if (std::find(features.begin(), features.end(), feature) == features.end()) return level;
    ++level;
  }
  return level;
}

int parse_cpu_quota(const std::string& text) {
  std::istringstream in(text);
  std::int64_t quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((quota + period - 1) / period, 1 << 20));
}

}  // namespace loopwright::runtime
