#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/codegen/cuda/nvrtc.h"

namespace loopwright::codegen {
namespace {

/// The number in front of `unit`: 256 for `256 bytes smem` and ` bytes smem`; 0 when the line has no such figure.
std::int64_t number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  std::int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

std::int64_t number_after(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return 0;
  std::int64_t value = 0;
  std::from_chars(line.data() + at + word.size(), line.data() + line.size(), value);
  return value;
}

/// What stands in the first pair of quotes behind `word`.
std::string quoted_after(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = line.find('\'', at + word.size());
  if (begin == std::string_view::npos) return {};
  const std::size_t end = line.find('\'', begin + 1);
  return end == std::string_view::npos ? std::string() : std::string(line.substr(begin + 1, end - begin - 1));
}

/// `C7510` in `(C7510) Potential Performance Loss: ...`.
std::string diagnostic_code(std::string_view line) {
  const std::size_t at = line.find("(C");
  if (at == std::string_view::npos) return {};
  const std::size_t end = line.find(')', at);
  return end == std::string_view::npos ? std::string() : std::string(line.substr(at + 1, end - at - 1));
}

bool is_diagnostic(std::string_view line) {
  if (line.find("ptxas") == std::string_view::npos) return false;
  const bool noted = line.find("(C") != std::string_view::npos;
  return noted || line.find("warning") != std::string_view::npos ||
         line.find("advisory") != std::string_view::npos;
}

}  // namespace

PtxasReport parse_ptxas_log(std::string_view log) {
  PtxasReport report;
  bool in_entry = false;  // figures of device functions that were not inlined come under their own heading
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (is_diagnostic(line)) {
      std::string entry = quoted_after(line, "function");
      report.diagnostics.push_back({diagnostic_code(line), std::move(entry), std::string(line)});
    } else if (const std::string entry = quoted_after(line, "Compiling entry function"); !entry.empty()) {
      report.kernels.emplace_back().entry = entry;
    } else if (const std::size_t at = line.find("Function properties for "); at != std::string_view::npos) {
      const std::string_view function = line.substr(at + 24);
      in_entry = !report.kernels.empty() && function == report.kernels.back().entry;
    } else if (!report.kernels.empty()) {
      KernelFigures& kernel = report.kernels.back();
      if (in_entry && line.find("bytes stack frame") != std::string_view::npos) {
        kernel.stack_bytes = number_before(line, " bytes stack frame");
        kernel.spill_store_bytes = number_before(line, " bytes spill stores");
        kernel.spill_load_bytes = number_before(line, " bytes spill loads");
      } else if (line.find("Used ") != std::string_view::npos) {
        kernel.registers = static_cast<std::int32_t>(number_after(line, "Used "));
        kernel.barriers = static_cast<std::int32_t>(number_before(line, " barriers"));
        kernel.shared_bytes = number_before(line, " bytes smem");
      }
    }
  }
  std::sort(report.kernels.begin(), report.kernels.end(),
            [](const KernelFigures& a, const KernelFigures& b) { return a.entry < b.entry; });
  return report;
}

}  // namespace loopwright::codegen
