#include "bench/support/gpu_contender.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

namespace loopwright::bench {
namespace {

constexpr std::string_view kOnly = "{only}";

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void Contender::run(const std::string& family) {
  std::string command = command_;
  const std::size_t at = command.find(kOnly);
  if (at == std::string::npos && has_run_) return;
  if (at != std::string::npos) command.replace(at, kOnly.size(), "'^" + family + "( |$)'");
  has_run_ = true;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) read_line(line.data());
  ::pclose(pipe);
}

void Contender::read_line(const std::string& line) {
  std::istringstream words(line);
  std::string family, shape, policy, unit, word;
  double us = 0, error = 0;
  if (!(words >> family >> shape >> policy >> us >> unit) || unit != "us") return;
  const std::string name = family + " " + shape;
  times_[name + " " + policy].push_back(us);
  while (words >> word)
    if (word == "err" && words >> error) errors_[name] = std::max(errors_[name], error);
}

double Contender::time_us(const std::string& name, bool cold) const {
  // A case that fits the L2 with all its sets is not cold in every program: `hot` is what they call it then.
  for (const char* policy : cold ? std::array<const char*, 2>{"cold", "hot"} : std::array<const char*, 2>{"seed", "seed"})
    if (const auto it = times_.find(name + " " + policy); it != times_.end()) return median(it->second);
  return 0;
}

double Contender::error(const std::string& name) const {
  const auto it = errors_.find(name);
  return it == errors_.end() ? -1 : it->second;
}

}  // namespace loopwright::bench
