// Products over groups of rows on a GPU: y[r] = x[r] * transpose(w[group of r]), against the dense product of the same rows with one
// matrix, in one interleaved run: replays of CUDA graphs in turn, operands rotated.
//
// Usage: bench_gpu_grouped [--dtype bf16|f16|f32] [--only REGEX] [--candidates N] [--rounds N] [--picks "name=value .."]...
//        [--vary name=value,value,..]...
// Candidates are the default, the picks that are given, and relatives of the best with one pick changed at a time; each is checked
// before it is timed. With --vary nothing is searched: the default, --picks and every combination of the values are timed in one interleaved
// run, each of the grouped product beside the dense one with the same picks. `default` is the default's time over the best's. GB/s counts the matrices of groups that have rows, once, and the rows.
// Errors are |y - exact| / |exact| over sampled elements in float64, edges of groups among them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <regex>
#include <set>

#include "bench/support/gpu_contender.h"
#include "src/driver/build.h"
#include "src/graph/group.h"
#include "src/runtime/cuda_device.h"

namespace {

using namespace loopwright;
namespace cuda = runtime::cuda;
using bench::median;

float from_bits(DType t, const std::uint8_t* p, std::int64_t i) {
  if (t == DType::f32) return reinterpret_cast<const float*>(p)[i];
  const std::uint16_t h = reinterpret_cast<const std::uint16_t*>(p)[i];
  return t == DType::bf16 ? std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16)
                          : static_cast<float>(std::bit_cast<_Float16>(h));
}

/// Normal numbers, which repeat after a while.
std::vector<std::uint8_t> draw(DType t, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> block(1 << 16);
  for (float& v : block) v = normal(random);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(count * size_bytes(t)));
  for (std::int64_t i = 0; i < count; ++i) {
    const float v = block[static_cast<std::size_t>((i + (i >> 16) * 40503) & 0xffff)];
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if (t == DType::f32) reinterpret_cast<float*>(out.data())[i] = v;
    else
      reinterpret_cast<std::uint16_t*>(out.data())[i] =
          t == DType::bf16 ? static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
                           : std::bit_cast<std::uint16_t>(static_cast<_Float16>(v));
  }
  return out;
}

/// Rows of each group are drawn evenly from 0..2*mean, or all are in one of them.
struct Case {
  const char* name;
  std::int64_t groups, k, n, mean;
  bool in_one = false;
};
constexpr Case kCases[] = {{"up_512", 64, 2048, 1024, 512},  {"down_512", 64, 1024, 2048, 512},
                           {"up_128", 64, 2048, 1024, 128},  {"up_32", 64, 2048, 1024, 32},
                           {"up_4", 64, 2048, 1024, 4},      {"down_4", 64, 1024, 2048, 4},
                           {"up_1", 64, 2048, 1024, 1},      {"up_in_one", 64, 2048, 1024, 64, true},
                           {"wide_512", 8, 4096, 14336, 512}};

/// Where the groups end.
std::vector<std::int32_t> draw_ends(const Case& c) {
  std::mt19937_64 random(5);
  std::vector<std::int32_t> ends;
  std::int64_t rows = 0;
  for (std::int64_t g = 0; g < c.groups; ++g) {
    if (c.in_one) rows += g == c.groups / 2 ? c.mean * c.groups : 0;
    else rows += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * c.mean + 1));
    ends.push_back(static_cast<std::int32_t>(rows));
  }
  return ends;
}

struct Options {
  DType dtype = DType::bf16;
  std::string only = ".";
  std::vector<std::string> picks;
  std::vector<std::string> vary;  ///< "name=value,value"
  int candidates = 24, rounds = 15;
};

/// What --picks and --vary ask for: the default, what is given, and all combinations of values.
std::vector<Picks> list_variants(const Options& o) {
  std::vector<Picks> out(1);
  for (const std::string& vary : o.vary) {
    const std::size_t equals = vary.find('=');
    if (equals == std::string::npos) continue;
    const std::vector<Picks> before = std::exchange(out, {});
    for (std::size_t at = equals; at != std::string::npos; at = vary.find(',', at + 1))
      for (Picks picks : before) {
        picks.push_back({vary.substr(0, equals), std::atoll(vary.c_str() + at + 1)});
        out.push_back(std::move(picks));
      }
  }
  if (!out[0].empty()) out.insert(out.begin(), Picks{});
  for (const std::string& picks : o.picks)
    if (const auto parsed = parse_picks(picks); parsed.ok()) out.push_back(*parsed);
  return out;
}

struct Candidate {
  const Template* family = nullptr;
  Picks picks;
  std::string name, failed;
  std::vector<Space::Choice> choices;
  Artifact artifact;
  std::shared_ptr<const runtime::LoadedArtifact> loaded;
  std::vector<cuda::Address> workspaces;  ///< zero at first, for every argument that is one
  double us = 1e30;
};

/// One graph with its operands: `buffers` of a set in the order of the artifact's arguments.
struct Problem {
  std::string text;
  std::function<std::vector<void*>(const Candidate&, std::size_t set)> buffers;
  std::function<double()> error;  ///< of set 0
};

class Bench {
 public:
  Bench(std::shared_ptr<const runtime::CudaDevice> device, Options options)
      : device_(std::move(device)), driver_(device_->driver()), options_(std::move(options)) {
    driver_.push_context(device_->context());
    driver_.create_stream(&stream_, 1);
    for (cuda::Event& e : events_) driver_.create_event(&e, 0);
  }

  void run() {
    std::printf("%-10s %7s | %9s %8s %7s | %9s %8s | %7s | %8s %8s | %7s | picks\n", "case", "rows",
                "ours us", "TFLOP/s", "GB/s", "dense us", "TFLOP/s", "dense/ours", "error", "dense",
                "default");
    for (const Case& c : kCases) {
      if (!std::regex_search(c.name, std::regex(options_.only))) continue;
      if (const Status status = run_case(c); !status.ok())
        std::printf("%-10s %s\n", c.name, status.error().message().c_str());
      for (const cuda::Address a : allocated_) driver_.free(a);
      allocated_.clear();
      std::fflush(stdout);
    }
  }

 private:
  cuda::Address allocate(std::int64_t bytes) {
    cuda::Address a = 0;
    if (driver_.allocate(&a, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))) == cuda::kSuccess)
      allocated_.push_back(a);
    return a;
  }

  cuda::Address upload(const void* data, std::int64_t bytes) {
    const cuda::Address a = allocate(bytes);
    if (a != 0) driver_.copy_to_device(a, data, static_cast<std::size_t>(bytes), stream_);
    driver_.wait_stream(stream_);
    return a;
  }

  bool launch(const Problem& p, const Candidate& c, std::size_t set) {
    std::vector<void*> buffers = p.buffers(c, set);
    runtime::KernelCall call;
    call.buffers = buffers.data();
    call.stream = stream_;
    return device_->launch(*c.loaded, call) == ErrorCode::ok;
  }

  cuda::GraphExec capture(const Problem& p, const Candidate& c, int calls) {
    cuda::Graph graph = nullptr;
    cuda::GraphExec out = nullptr;
    bool fine = driver_.begin_capture(stream_, 2) == cuda::kSuccess;
    for (int i = 0; fine && i < calls; ++i) fine = launch(p, c, static_cast<std::size_t>(i) % kSets);
    fine = driver_.end_capture(stream_, &graph) == cuda::kSuccess && fine &&
           driver_.instantiate(&out, graph, 0) == cuda::kSuccess;
    if (graph != nullptr) driver_.destroy_graph(graph);
    return fine ? out : nullptr;
  }

  double replay_us(cuda::GraphExec graph, int calls) {
    float ms = 0;
    driver_.record_event(events_[0], stream_);
    driver_.launch_graph(graph, stream_);
    driver_.record_event(events_[1], stream_);
    driver_.wait_event(events_[1]);
    driver_.elapsed_ms(&ms, events_[0], events_[1]);
    return ms * 1e3 / calls;
  }

  Candidate build(const driver::Job& job, const Template& t, const Picks& picks) const {
    Candidate c;
    Space space(picks);
    const auto scheduled = driver::run_template(job, t, space, device_->target());
    c.family = &t;
    c.name = std::string(t.name) + " " + print_picks(space.picks());
    c.picks = space.picks();
    c.choices = space.choices();
    const auto artifact =
        scheduled.ok() ? driver::build(*scheduled, device_->target()) : Result<Artifact>(scheduled.error());
    if (artifact.ok()) c.artifact = *artifact;
    else c.failed = artifact.error().message();
    return c;
  }

  bool try_candidate(const Problem& p, Candidate& c, double bound) {
    if (!seen_.insert(c.name).second) return false;
    const auto note = [&](const std::string& why) {
      std::fprintf(stderr, "  rejected   %s: %s\n", c.name.c_str(), why.substr(0, 300).c_str());
      return false;
    };
    if (!c.failed.empty()) return note(c.failed);
    auto loaded = device_->load(c.artifact);
    if (!loaded.ok()) return note(loaded.error().message());
    c.loaded = *loaded;
    for (const ArtifactArg& a : c.artifact.args) {
      if (a.role != ArgRole::workspace) continue;
      std::int64_t bytes = size_bytes(a.dtype);
      for (const SizeExpr& n : a.shape) bytes *= n.evaluate(nullptr);
      c.workspaces.push_back(allocate(bytes));
      if (c.workspaces.back() == 0) return note("no device memory for its workspace");
      driver_.fill(c.workspaces.back(), 0, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)),
                   stream_);
    }
    driver_.fill(y_[0], 0xff, y_bytes_, stream_);
    if (!launch(p, c, 0) || driver_.wait_stream(stream_) != cuda::kSuccess)
      return note("launch: " + device_->describe_failure());
    const double error = p.error();
    if (!(error < bound)) return note("wrong: error " + std::to_string(error));
    constexpr int kCalls = 8;
    const cuda::GraphExec graph = capture(p, c, kCalls);
    if (graph == nullptr) return note("capture failed");
    std::vector<double> times;
    for (int i = -1; i < 5; ++i) {
      const double us = replay_us(graph, kCalls);
      if (i >= 0) times.push_back(us);
    }
    driver_.destroy_graph_exec(graph);
    c.us = median(times);
    std::fprintf(stderr, "  %9.2f us  %s\n", c.us, c.name.c_str());
    return true;
  }

  /// The default, what is given, relatives of the best.
  std::optional<Candidate> search(const Problem& p, const driver::Job& job, double bound, bool with_picks) {
    std::optional<Candidate> best;
    seen_.clear();
    default_us_ = NAN;
    int tried = 0;
    const auto attempt = [&](Candidate c) {
      ++tried;
      const bool fine = try_candidate(p, c, bound);
      if (fine && tried == 1) default_us_ = c.us;
      if (fine && (!best || c.us < best->us)) best = std::move(c);
    };
    const Template& t = *driver::templates_for(job, device_->target()).front();
    attempt(build(job, t, {}));
    if (with_picks)
      for (const std::string& picks : options_.picks)
        if (const auto parsed = parse_picks(picks); parsed.ok()) attempt(build(job, t, *parsed));
    tried = 1;
    for (int round = 0; best && round < 3 && tried <= options_.candidates; ++round) {
      const Candidate from = *best;
      for (const Space::Choice& choice : from.choices)
        for (const std::int64_t value : choice.domain) {
          if (value == choice.pick.value || tried > options_.candidates) continue;
          Picks picks = best->picks;
          for (Pick& pick : picks)
            if (pick.name == choice.pick.name) pick.value = value;
          attempt(build(job, *best->family, picks));
        }
    }
    return best;
  }

  /// One graph's contenders.
  struct Contender {
    const Problem* problem;
    Candidate candidate;
    cuda::GraphExec graph = nullptr;
    std::vector<double> times;
  };

  /// Replays of all of them in turn.
  void interleave(std::vector<Contender>& all) {
    double shortest = 1e30;
    for (const Contender& c : all) shortest = std::min(shortest, c.candidate.us);
    const int calls = std::clamp(static_cast<int>(3000 / shortest), 2, 100);
    for (Contender& c : all) c.graph = capture(*c.problem, c.candidate, calls);
    for (int round = -2; round < options_.rounds; ++round)
      for (Contender& c : all) {
        if (c.graph == nullptr) continue;
        const double us = replay_us(c.graph, calls);
        if (round >= 0) c.times.push_back(us);
      }
    for (const Contender& c : all)
      if (c.graph != nullptr) driver_.destroy_graph_exec(c.graph);
  }

  /// Every variant of both products, without a search.
  Status compare(const Problem& dense, const Problem& grouped, double bound, double flops) {
    std::vector<Contender> all;
    for (const Problem* p : {&dense, &grouped}) {
      LW_TRY(const driver::Job job, make_job(*p));
      const Template& t = *driver::templates_for(job, device_->target()).front();
      seen_.clear();
      for (const Picks& picks : list_variants(options_)) {
        Candidate c = build(job, t, picks);
        if (try_candidate(*p, c, bound)) all.push_back({p, std::move(c), nullptr, {}});
      }
    }
    interleave(all);
    for (const Contender& c : all) {
      const double us = c.times.empty() ? NAN : median(c.times);
      std::printf("  %-7s %9.2f us %7.1f TFLOP/s  %s\n", c.problem == &dense ? "dense" : "grouped", us,
                  flops / us / 1e6, c.candidate.name.c_str());
    }
    return Unit{};
  }

  static Result<driver::Job> make_job(const Problem& p) {
    LW_TRY(const Graph graph, Graph::parse(p.text, "bench"));
    return driver::make_job(graph::make_workload(graph::group_ops(graph)[0].graph));
  }

  double value(const std::vector<std::uint8_t>& data, std::int64_t at) const {
    return from_bits(options_.dtype, data.data(), at);
  }

  Status run_case(const Case& c) {
    const std::int64_t es = size_bytes(options_.dtype);
    const std::vector<std::int32_t> ends = draw_ends(c);
    const std::int64_t rows = ends.back();
    std::int64_t used = 0;
    for (std::size_t g = 0; g < ends.size(); ++g) used += ends[g] > (g == 0 ? 0 : ends[g - 1]) ? 1 : 0;
    const std::vector<std::uint8_t> x = draw(options_.dtype, rows * c.k, 3),
                                    w = draw(options_.dtype, c.groups * c.n * c.k, 4);
    y_bytes_ = static_cast<std::size_t>(rows * c.n * es);
    for (std::size_t s = 0; s < kSets; ++s) {
      x_[s] = upload(x.data(), static_cast<std::int64_t>(x.size())),
      w_[s] = upload(w.data(), static_cast<std::int64_t>(w.size()));
      y_[s] = allocate(rows * c.n * es);
      if (x_[s] == 0 || w_[s] == 0 || y_[s] == 0)
        return Error{ErrorCode::out_of_memory, c.name, "no device memory", "", ""};
    }
    const cuda::Address offsets = upload(ends.data(), static_cast<std::int64_t>(ends.size() * 4));
    const auto buffers = [&](const Candidate& candidate, std::size_t set) {
      std::vector<void*> out;
      std::size_t workspace = 0;
      for (const ArtifactArg& arg : candidate.artifact.args)
        out.push_back(reinterpret_cast<void*>(arg.role == ArgRole::workspace
                                                  ? candidate.workspaces[workspace++]
                                              : arg.role == ArgRole::output ? y_[set]
                                              : arg.name == "i0"            ? x_[set]
                                              : arg.name == "i1"            ? w_[set]
                                                                            : offsets));
      return out;
    };
    const auto error = [&](bool grouped) {
      std::vector<std::uint8_t> y(y_bytes_);
      driver_.copy_to_host(y.data(), y_[0], y.size(), stream_);
      driver_.wait_stream(stream_);
      std::mt19937_64 draw(11);
      double difference = 0, size = 0;
      for (int i = 0; i < 2000; ++i) {
        std::int64_t row = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(rows));
        const std::int64_t column = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(c.n));
        const std::int64_t edge = ends[draw() % ends.size()] - i % 2;
        if (i % 4 < 2 && edge >= 0 && edge < rows) row = edge;
        const std::int64_t group =
            grouped ? std::upper_bound(ends.begin(), ends.end(), row) - ends.begin() : 0;
        double exact = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
          exact += value(x, row * c.k + k) * value(w, (group * c.n + column) * c.k + k);
        const double found = value(y, row * c.n + column);
        if (!std::isfinite(found)) return static_cast<double>(INFINITY);
        difference += (found - exact) * (found - exact);
        size += exact * exact;
      }
      return std::sqrt(difference / size);
    };
    const auto number = [](std::int64_t v) { return std::to_string(v); };
    const std::string type(loopwright::name(options_.dtype)), head = "graph product\ninput x: " + type + "[" +
                                                                     number(rows) + ", " + number(c.k) +
                                                                     "]\ninput w: " + type + "[";
    const std::string matrix = number(c.n) + ", " + number(c.k) + "]\n";
    const Problem grouped{head + number(c.groups) + ", " + matrix + "input o: i32[" + number(c.groups) +
                              "]\noutput y = grouped_matmul(x, w, o, transpose_b=true)\n",
                          buffers, [&] { return error(true); }};
    const Problem dense{head + matrix + "output y = matmul(x, w, transpose_b=true)\n", buffers,
                        [&] { return error(false); }};
    const double bound = options_.dtype == DType::f32 ? 1e-5 : 5e-3;
    const double flops =
        2.0 * static_cast<double>(rows) * static_cast<double>(c.n) * static_cast<double>(c.k);
    if (!options_.vary.empty()) {
      std::printf("%s, %lld rows\n", c.name, static_cast<long long>(rows));
      return compare(dense, grouped, bound, flops);
    }
    std::vector<Contender> best;
    double of_default = NAN;
    for (const Problem* p : {&dense, &grouped}) {
      LW_TRY(const driver::Job job, make_job(*p));
      std::fprintf(stderr, "%s %s\n", c.name, p == &dense ? "dense" : "grouped");
      std::optional<Candidate> found = search(*p, job, bound, p == &grouped);
      if (!found) return Error{ErrorCode::no_template, c.name, "no valid candidate", "", ""};
      of_default = default_us_ / found->us;
      best.push_back({p, std::move(*found), nullptr, {}});
    }
    interleave(best);
    if (best[0].times.empty() || best[1].times.empty())
      return Error{ErrorCode::launch_failed, c.name, "capture failed", "", ""};
    double errors[2];
    for (std::size_t i = 0; i < 2; ++i) {
      driver_.fill(y_[0], 0xff, y_bytes_, stream_);
      launch(*best[i].problem, best[i].candidate, 0);
      errors[i] = error(i == 1);
    }
    const double us = median(best[1].times), dense_us = median(best[0].times);
    const double bytes = static_cast<double>(es) *
                         (static_cast<double>(used) * static_cast<double>(c.n) * static_cast<double>(c.k) +
                          static_cast<double>(rows) * static_cast<double>(c.n + c.k));
    std::printf("%-10s %7lld | %9.2f %8.1f %7.0f | %9.2f %8.1f | %10.3f | %8.2e %8.2e | %7.3f | %s\n", c.name,
                static_cast<long long>(rows), us, flops / us / 1e6, bytes / us / 1e3, dense_us,
                flops / dense_us / 1e6, dense_us / us, errors[1], errors[0], of_default,
                best[1].candidate.name.c_str());
    return Unit{};
  }

  static constexpr std::size_t kSets = 2;
  std::shared_ptr<const runtime::CudaDevice> device_;
  const runtime::CudaDriver& driver_;
  Options options_;
  cuda::Stream stream_ = nullptr;
  cuda::Event events_[2] = {};
  std::vector<cuda::Address> allocated_;
  cuda::Address x_[kSets] = {}, w_[kSets] = {}, y_[kSets] = {};
  std::size_t y_bytes_ = 0;
  std::set<std::string> seen_;
  double default_us_ = NAN;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--dtype") o.dtype = loopwright::parse_dtype(value).value_or(DType::bf16);
    if (flag == "--only") o.only = value;
    if (flag == "--picks") o.picks.push_back(value);
    if (flag == "--vary") o.vary.push_back(value);
    if (flag == "--candidates") o.candidates = std::atoi(value.c_str());
    if (flag == "--rounds") o.rounds = std::atoi(value.c_str());
  }
  const auto opened = runtime::open_device("cuda");
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    return 2;
  }
  Bench(std::dynamic_pointer_cast<const runtime::CudaDevice>(*opened), o).run();
  return 0;
}
