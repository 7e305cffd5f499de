// Runs a fuzz target without libFuzzer: over each corpus file, over its prefixes and over copies with flipped bytes.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr int kVariants = 64;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

void run(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void run_with_variants(const Bytes& bytes) {
  run(bytes);
  std::mt19937 random(static_cast<std::mt19937::result_type>(bytes.size()));
  for (int i = 0; i < kVariants && !bytes.empty(); ++i) {
    run(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size())));
    Bytes flipped = bytes;
    flipped[random() % flipped.size()] ^= static_cast<std::uint8_t>(1u << (random() % 8));
    run(flipped);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  run({});
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      run_with_variants(read_file(entry.path()));
      ++files;
    }
  }
  std::printf("%d corpus files\n", files);
  return 0;
}
