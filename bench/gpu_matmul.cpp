// Matrix products on a GPU: y = x * transpose(w) for the shapes of a decoder and its training, ours against cuBLASLt's
// default and the best of its heuristic list, in one interleaved run: replays of CUDA graphs in turn, operands rotated
// beyond the L2.
//
// Usage: bench_gpu_matmul [--dtype bf16|f16|f32|tf32|bf16xf32] [--shapes MxNxK,..] [--only REGEX] [--candidates N] [--rounds N] [--json FILE] [--picks FILE] [--gated 1]
// `tf32` is f32 in that accuracy, against cuBLASLt's. bf16xf32: x in bf16 is cast to the f32 of w and y, as an adapter's product; cuBLASLt has
// none, so there is no contender. --gated: y = silu(x * transpose(w)) * (x * transpose(v)) with w and v of N rows each, against cuBLASLt's product of 2 N
// columns, which has neither the epilogue nor the half as large result. Candidates are the templates' defaults, the picks that FILE lists for the shape (`MxNxK template name=value ..` a line;
// built on all cores), relatives of the best with one pick changed at a time, then changes of the best; each is checked
// before it is timed. `default` is the time of the first template's default over the best's, in the search. Errors are
// |y - exact| / |exact| over sampled elements in float64.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "bench/support/cublas_lt.h"
#include "bench/support/gpu_contender.h"
#include "src/driver/build.h"
#include "src/graph/group.h"
#include "src/runtime/cuda_device.h"

namespace {

using namespace loopwright;
namespace cuda = runtime::cuda;
using bench::CublasLt;
using bench::median;

struct Shape {
  std::int64_t m, n, k;
};
constexpr std::array<Shape, 18> kShapes = {{{8192, 8192, 8192}, {4096, 4096, 4096}, {2048, 2048, 2048}, {1024, 1024, 1024},
                                            {4096, 256, 3584},  {4096, 3584, 256},  {4096, 16, 3584},   {4096, 3584, 16},
                                            {512, 1024, 2048},  {512, 2048, 1024},  {37, 1024, 2048},   {4096, 14336, 4096},
                                            {1, 2048, 2048},    {1, 16384, 2048},   {1, 2048, 8192},    {1, 128256, 2048},
                                            {16, 8192, 2048},   {2048, 128256, 2048}}};

struct Options {
  DType x = DType::bf16, w = DType::bf16;  ///< y is as w
  Accuracy accuracy = Accuracy::strict;
  std::string only = ".", json, picks;
  std::vector<Shape> shapes{kShapes.begin(), kShapes.end()};
  bool is_mixed() const { return x != w; }
  bool gated = false;
  int candidates = 24, rounds = 15;
  /// Of the weights, one behind the other.
  std::int64_t weight_rows(const Shape& s) const { return s.n * (gated ? 2 : 1); }
};

float from_bits(DType t, const std::uint8_t* p, std::int64_t i) {
  if (t == DType::f32) return reinterpret_cast<const float*>(p)[i];
  const std::uint16_t h = reinterpret_cast<const std::uint16_t*>(p)[i];
  if (t == DType::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
  _Float16 f;
  std::memcpy(&f, &h, 2);
  return static_cast<float>(f);
}

void to_bits(DType t, std::uint8_t* p, std::int64_t i, float v) {
  if (t == DType::f32) {
    reinterpret_cast<float*>(p)[i] = v;
  } else if (t == DType::bf16) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    reinterpret_cast<std::uint16_t*>(p)[i] = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  } else {
    const auto f = static_cast<_Float16>(v);
    std::memcpy(p + 2 * i, &f, 2);
  }
}

class Bench {
 public:
  Bench(std::shared_ptr<const runtime::CudaDevice> device, Options options) : device_(std::move(device)), driver_(device_->driver()), options_(std::move(options)) {
    driver_.push_context(device_->context());
    driver_.create_stream(&stream_, 1);
    for (cuda::Event& e : events_) driver_.create_event(&e, 0);
    driver_.allocate(&workspace_, CublasLt::kWorkspaceBytes);
    lt_ = CublasLt::open();
    if (!lt_.ok()) std::printf("%s\n", lt_.error().message().c_str());
  }

  void run() {
    std::printf("%-20s %9s %8s %7s | %9s %9s %7s %7s | %8s %8s | %7s | picks\n", "M x N x K", "ours us", "TFLOP/s", "GB/s", "Lt def", "Lt best", "x def", "x best", "error", "Lt error", "default");
    for (const Shape& s : options_.shapes) {
      const std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
      if (!std::regex_search(name, std::regex(options_.only))) continue;
      if (const Status status = run_shape(s, name); !status.ok()) std::printf("%-20s %s\n", name.c_str(), status.error().message().c_str());
      for (cuda::Address a : allocated_) driver_.free(a);
      allocated_.clear();
      std::fflush(stdout);
    }
    if (ratios_ > 0) std::printf("geometric mean over %d shapes: %.3f x default, %.3f x best\n", ratios_, std::exp(log_default_ / ratios_), std::exp(log_best_ / ratios_));
    if (!options_.json.empty()) std::ofstream(options_.json) << rows_.dump(1) << "\n";
  }

 private:
  struct Set {
    cuda::Address x, w, y, v;  ///< v: the second half of w
  };
  using Call = std::function<bool(const Set&)>;
  struct Replay {
    cuda::GraphExec graph = nullptr;
    int calls = 0;
  };
  struct Candidate {
    const Template* family = nullptr;
    Picks picks;
    std::string name, failed;
    std::vector<Space::Choice> choices;
    std::shared_ptr<const runtime::LoadedArtifact> loaded;
    cuda::Address zeroed = 0;
    Artifact artifact;
    double us = 1e30;
  };

  cuda::Address allocate(std::int64_t bytes) {
    cuda::Address a = 0;
    if (driver_.allocate(&a, static_cast<std::size_t>(bytes)) == cuda::kSuccess) allocated_.push_back(a);
    return a;
  }

  /// Operands in a first set, the same values in all others.
  Status make_sets(const Shape& s) {
    const std::int64_t rows = options_.weight_rows(s), xb = s.m * s.k * size_bytes(options_.x), wb = rows * s.k * size_bytes(options_.w), yb = s.m * rows * size_bytes(options_.w);
    const std::int64_t count = std::clamp<std::int64_t>(150'000'000 / (xb + wb + yb) + 1, 2, 64);
    x_.resize(static_cast<std::size_t>(xb));
    w_.resize(static_cast<std::size_t>(wb));
    std::mt19937_64 random(7);
    std::vector<float> block(1 << 16);
    std::normal_distribution<float> normal(0, 1);
    for (float& v : block) v = normal(random);
    const auto fill = [&](DType dtype, std::vector<std::uint8_t>& to, std::int64_t elements, std::int64_t shift) {
      for (std::int64_t i = 0; i < elements; ++i) to_bits(dtype, to.data(), i, block[static_cast<std::size_t>((i + (i >> 16) * 40503 + shift) & 0xffff)]);
    };
    fill(options_.x, x_, s.m * s.k, 0);
    fill(options_.w, w_, rows * s.k, 12345);
    sets_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      sets_.push_back({allocate(xb), allocate(wb), allocate(yb), 0});
      sets_.back().v = sets_.back().w + static_cast<cuda::Address>(wb / 2);
      if (sets_.back().y == 0) return Error{ErrorCode::out_of_memory, "make operands", "no device memory", "", ""};
      driver_.copy_to_device(sets_[i].x, x_.data(), x_.size(), stream_);
      driver_.copy_to_device(sets_[i].w, w_.data(), w_.size(), stream_);
    }
    driver_.wait_stream(stream_);
    return Unit{};
  }

  std::optional<Replay> capture(const Call& call, int calls) {
    if (!call(sets_[0]) || driver_.wait_stream(stream_) != cuda::kSuccess) return std::nullopt;
    cuda::Graph graph = nullptr;
    Replay out{nullptr, calls};
    bool fine = driver_.begin_capture(stream_, 2) == cuda::kSuccess;
    for (int i = 0; fine && i < calls; ++i) fine = call(sets_[static_cast<std::size_t>(i) % sets_.size()]);
    fine = driver_.end_capture(stream_, &graph) == cuda::kSuccess && fine && driver_.instantiate(&out.graph, graph, 0) == cuda::kSuccess;
    if (graph != nullptr) driver_.destroy_graph(graph);
    return fine ? std::optional(out) : std::nullopt;
  }

  double replay_us(const Replay& r) {
    float ms = 0;
    driver_.record_event(events_[0], stream_);
    driver_.launch_graph(r.graph, stream_);
    driver_.record_event(events_[1], stream_);
    driver_.wait_event(events_[1]);
    driver_.elapsed_ms(&ms, events_[0], events_[1]);
    return ms * 1e3 / r.calls;
  }

  /// |y - exact| / |exact| over some elements, edges among them; infinite for a NaN.
  double error_of(const Shape& s, bool gated) {
    const std::int64_t width = gated ? s.n : options_.weight_rows(s);
    std::vector<std::uint8_t> y(static_cast<std::size_t>(s.m * width * size_bytes(options_.w)));
    driver_.copy_to_host(y.data(), sets_[0].y, y.size(), stream_);
    driver_.wait_stream(stream_);
    std::mt19937_64 random(11);
    double difference = 0, size = 0;
    for (int i = 0; i < 2000; ++i) {
      std::int64_t row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(s.m)), column = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(s.n));
      if (i % 8 == 0) row = s.m - 1;
      if (i % 8 == 1) column = s.n - 1 - i % 5 % s.n;
      const auto sum = [&](std::int64_t weight) {
        double exact = 0;
        for (std::int64_t k = 0; k < s.k; ++k)
          exact += static_cast<double>(from_bits(options_.x, x_.data(), row * s.k + k)) * static_cast<double>(from_bits(options_.w, w_.data(), weight * s.k + k));
        return exact;
      };
      double exact = sum(column);
      if (gated) exact = exact / (1 + std::exp(-exact)) * sum(column + s.n);
      const double found = from_bits(options_.w, y.data(), row * width + column);
      if (!std::isfinite(found)) return INFINITY;
      difference += (found - exact) * (found - exact);
      size += exact * exact;
    }
    return std::sqrt(difference / size);
  }

  void poison(const Shape& s) {
    driver_.fill(sets_[0].y, 0xff, static_cast<std::size_t>(s.m * options_.weight_rows(s) * size_bytes(options_.w)), stream_);
    driver_.wait_stream(stream_);
  }

  static std::int64_t scratch_bytes(const ArtifactArg& a) {
    std::int64_t bytes = size_bytes(a.dtype);
    for (const SizeExpr& n : a.shape) bytes *= n.evaluate(nullptr);
    return (bytes + 255) / 256 * 256;
  }

  Call call_of(const Candidate& c) const {
    return [this, &c](const Set& set) {
      std::vector<void*> buffers;
      cuda::Address scratch = c.zeroed;
      for (const ArtifactArg& a : c.artifact.args) {
        if (a.role == ArgRole::workspace) {
          buffers.push_back(reinterpret_cast<void*>(scratch));
          scratch += static_cast<cuda::Address>(scratch_bytes(a));
        } else {
          buffers.push_back(reinterpret_cast<void*>(a.role == ArgRole::output ? set.y : a.name == "i0" ? set.x : a.name == "i1" ? set.w : set.v));
        }
      }
      runtime::KernelCall call;
      call.buffers = buffers.data();
      call.stream = stream_;
      return device_->launch(*c.loaded, call) == ErrorCode::ok;
    };
  }

  /// Schedules and compiles; the reason in `failed` otherwise. Touches no device.
  Candidate build(const driver::Job& job, const Template& t, const Picks& picks) const {
    Candidate c;
    Space space(picks);
    const auto scheduled = driver::run_template(job, t, space, device_->target());
    c.family = &t;
    c.name = std::string(t.name) + " " + print_picks(space.picks());
    c.picks = space.picks();
    c.choices = space.choices();
    const auto artifact = scheduled.ok() ? driver::build(*scheduled, device_->target()) : Result<Artifact>(scheduled.error());
    if (artifact.ok()) c.artifact = *artifact;
    else c.failed = artifact.error().message();
    return c;
  }

  /// Loads, checks and times; false when it is not valid, or known.
  bool try_candidate(const Shape& s, Candidate& c, double bound) {
    if (!seen_.insert(c.name).second) return false;
    if (!c.failed.empty()) return note(c, c.failed);
    auto loaded = device_->load(c.artifact);
    if (!loaded.ok()) return note(c, loaded.error().message());
    c.loaded = *loaded;
    std::int64_t scratch = 0;
    for (const ArtifactArg& a : c.artifact.args)
      if (a.role == ArgRole::workspace) scratch += scratch_bytes(a);
    c.zeroed = allocate(std::max<std::int64_t>(scratch, 1));
    if (c.zeroed == 0) return note(c, "no device memory for its workspace");
    driver_.fill(c.zeroed, 0, static_cast<std::size_t>(std::max<std::int64_t>(scratch, 1)), stream_);
    poison(s);
    const Call call = call_of(c);
    if (!call(sets_[0]) || driver_.wait_stream(stream_) != cuda::kSuccess) return note(c, "launch: " + device_->describe_failure());
    const double error = error_of(s, options_.gated);
    if (!(error < bound)) return note(c, "wrong: error " + std::to_string(error));
    const auto replay = capture(call, 2);
    if (!replay) return note(c, "capture failed");
    replay_us(*replay);
    const double rough = replay_us(*replay);
    driver_.destroy_graph_exec(replay->graph);
    const auto longer = capture(call, std::clamp(static_cast<int>(1500 / rough), 2, 200));
    if (!longer) return note(c, "capture failed");
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.push_back(replay_us(*longer));
    driver_.destroy_graph_exec(longer->graph);
    c.us = median(times);
    std::fprintf(stderr, "  %9.2f us  %s\n", c.us, c.name.c_str());
    return true;
  }

  static bool note(const Candidate& c, const std::string& why) {
    std::fprintf(stderr, "  rejected   %s: %s\n", c.name.c_str(), why.substr(0, 300).c_str());
    return false;
  }

  /// What the file of picks lists for a shape.
  std::vector<std::pair<std::string, Picks>> read_picks(const std::string& shape) const {
    std::vector<std::pair<std::string, Picks>> out;
    std::ifstream file(options_.picks);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name, family, rest;
      words >> name >> family;
      std::getline(words, rest);
      const auto picks = parse_picks(rest);
      if (name == shape && picks.ok()) out.emplace_back(family, *picks);
    }
    return out;
  }

  /// The default of every template that applies, what the file lists, then relatives of the best.
  std::optional<Candidate> search(const Shape& s, const std::string& name, const driver::Job& job, double bound) {
    std::optional<Candidate> best;
    int tried = 0;
    seen_.clear();
    default_us_ = NAN;
    const auto attempt = [&](Candidate c) {
      ++tried;
      const bool fine = try_candidate(s, c, bound);
      if (fine && std::isnan(default_us_)) default_us_ = c.us;
      if (fine && (!best || c.us < best->us)) best = std::move(c);
    };
    std::vector<std::future<Candidate>> building;
    const auto listed = read_picks(name);
    for (const Template* t : driver::templates_for(job, device_->target()))
      if (std::string(t->name) != "gpu_general" && std::string(t->name) != "general") building.push_back(std::async(std::launch::async, [this, &job, t] { return build(job, *t, {}); }));
    for (const auto& [family, picks] : listed)
      for (const Template* t : driver::templates_for(job, device_->target()))
        if (family == t->name) building.push_back(std::async(std::launch::async, [this, &job, t, p = &picks] { return build(job, *t, *p); }));
    for (std::future<Candidate>& f : building) attempt(f.get());
    tried = 0;
    for (int round = 0; best && round < 3 && tried < options_.candidates; ++round) {
      const Candidate from = *best;
      for (const Space::Choice& choice : from.choices)
        for (const std::int64_t value : choice.domain) {
          if (value == choice.pick.value || tried >= options_.candidates) continue;
          Picks picks = best->picks;
          for (Pick& p : picks)
            if (p.name == choice.pick.name) p.value = value;
          attempt(build(job, *best->family, picks));
        }
    }
    return best;
  }

  Status run_shape(const Shape& s, const std::string& name) {
    LW_CHECK(make_sets(s));
    const std::string x(loopwright::name(options_.x)), w(loopwright::name(options_.w));
    const auto dims = [](std::int64_t a, std::int64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
    const std::string left = options_.is_mixed() ? "cast(x, " + w + ")" : "x", inputs = "input x: " + x + dims(s.m, s.k) + "\ninput w: " + w + dims(s.n, s.k) + "\n";
    const std::string body = options_.gated ? "input v: " + w + dims(s.n, s.k) + "\noutput y = mul(silu(linear(" + left + ", w)), linear(" + left + ", v))\n" : "output y = linear(" + left + ", w)\n";
    LW_TRY(const Graph graph, Graph::parse("graph product\naccuracy " + std::string(loopwright::name(options_.accuracy)) + "\n" + inputs + body, "bench"));
    const std::vector<graph::Group> groups = graph::group_ops(graph, {.thin_products_in_epilogues = true, .products_side_by_side = true});
    if (groups.size() != 1) return Error{ErrorCode::bad_argument, name, std::to_string(groups.size()) + " kernels", "", "one"};
    LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(groups[0].graph)));
    const double bound = options_.accuracy == Accuracy::tf32 ? 1e-3 : options_.w == DType::f32 ? 1e-5 : options_.gated ? 1e-2 : 5e-3;
    std::fprintf(stderr, "%s\n", name.c_str());
    const auto ours = search(s, name, job, bound);
    if (!ours) return Error{ErrorCode::no_template, name, "no valid candidate", "", ""};
    std::vector<Replay> replays;
    const int calls = std::clamp(static_cast<int>(2000 / ours->us), 2, 400);
    const auto mine = capture(call_of(*ours), calls);
    if (!mine) return Error{ErrorCode::launch_failed, name, "capture failed", "", ""};
    replays.push_back(*mine);
    poison(s);
    call_of (*ours)(sets_[0]);
    const double error = error_of(s, options_.gated);
    double lt_error = 0;
    std::unique_ptr<CublasLt::Product> product;
    if (lt_.ok() && !options_.is_mixed()) {
      LW_TRY(product, (*lt_)->make(options_.x, s.m, options_.weight_rows(s), s.k, options_.accuracy));
      const auto call = [&](std::size_t algorithm) -> Call {
        return [this, &product, algorithm](const Set& set) {
          return product->run(algorithm, {reinterpret_cast<void*>(set.x), reinterpret_cast<void*>(set.w), reinterpret_cast<void*>(set.y)},
                              reinterpret_cast<void*>(workspace_), stream_);
        };
      };
      // The fastest of the list, by a few replays each, then it and the default in turn with ours.
      std::size_t fastest = 0;
      double fastest_us = 1e30;
      for (std::size_t a = 0; a < product->algorithms(); ++a) {
        const auto r = capture(call(a), calls);
        if (!r) continue;
        std::vector<double> times;
        for (int i = 0; i < 5; ++i) times.push_back(replay_us(*r));
        driver_.destroy_graph_exec(r->graph);
        if (median(times) < fastest_us) fastest_us = median(times), fastest = a;
      }
      for (const std::size_t a : {std::size_t{0}, fastest})
        if (const auto r = capture(call(a), calls)) replays.push_back(*r);
      poison(s);
      call(fastest)(sets_[0]);
      lt_error = error_of(s, false);
    }
    std::vector<std::vector<double>> times(replays.size());
    for (int round = -3; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < replays.size(); ++i) {
        const double us = replay_us(replays[i]);
        if (round >= 0) times[i].push_back(us);
      }
    report(s, name, *ours, times, error, lt_error);
    for (const Replay& r : replays) driver_.destroy_graph_exec(r.graph);
    return Unit{};
  }

  void report(const Shape& s, const std::string& name, const Candidate& ours, const std::vector<std::vector<double>>& times, double error, double lt_error) {
    const double us = median(times[0]);
    const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(options_.weight_rows(s)) * static_cast<double>(s.k);
    const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
    const double bytes = size_bytes(options_.x) * count(s.m, s.k) + size_bytes(options_.w) * (count(options_.weight_rows(s), s.k) + count(s.m, s.n));
    const double lt_default = times.size() == 3 ? median(times[1]) : NAN, lt_best = times.size() == 3 ? median(times[2]) : NAN;
    std::printf("%-20s %9.2f %8.1f %7.0f | %9.2f %9.2f %7.3f %7.3f | %8.2e %8.2e | %7.3f | %s\n", name.c_str(), us, flops / us / 1e6, bytes / us / 1e3, lt_default, lt_best, lt_default / us,
                lt_best / us, error, lt_error, default_us_ / ours.us, ours.name.c_str());
    if (times.size() != 3) return;
    std::vector<double> sorted = times[0];
    std::sort(sorted.begin(), sorted.end());
    rows_.push_back({{"case", name}, {"gated", options_.gated}, {"dtype", std::string(loopwright::name(options_.x))}, {"accuracy", std::string(loopwright::name(options_.accuracy))}, {"ours_us", us}, {"p10_us", sorted[sorted.size() / 10]},
                     {"p90_us", sorted[sorted.size() * 9 / 10]}, {"cublaslt_default_us", lt_default}, {"cublaslt_best_us", lt_best}, {"ratio", lt_best / us},
                     {"error", error}, {"cublaslt_error", lt_error}, {"picks", ours.name}, {"best_of_search_us", ours.us}, {"default_us", default_us_}, {"device", device_->info().name}});
    log_default_ += std::log(lt_default / us);
    log_best_ += std::log(lt_best / us);
    ++ratios_;
  }

  std::shared_ptr<const runtime::CudaDevice> device_;
  const runtime::CudaDriver& driver_;
  Options options_;
  Result<std::shared_ptr<const CublasLt>> lt_ = Error{ErrorCode::not_found, "", "", "", ""};
  cuda::Stream stream_ = nullptr;
  cuda::Event events_[2] = {};
  cuda::Address workspace_ = 0;
  std::vector<cuda::Address> allocated_;
  std::vector<std::uint8_t> x_, w_;
  std::vector<Set> sets_;
  std::set<std::string> seen_;
  nlohmann::json rows_ = nlohmann::json::array();
  double log_default_ = 0, log_best_ = 0, default_us_ = NAN;
  int ratios_ = 0;
};

}  // namespace

namespace {

/// `MxNxK,MxNxK`.
std::vector<Shape> read_shapes(const std::string& text) {
  std::vector<Shape> out;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    Shape s{};
    char x = 0;
    std::istringstream(one) >> s.m >> x >> s.n >> x >> s.k;
    if (s.m > 0 && s.n > 0 && s.k > 0) out.push_back(s);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--dtype") o.accuracy = loopwright::parse_accuracy(value).value_or(Accuracy::strict);
    if (flag == "--dtype" && o.accuracy == Accuracy::tf32) o.x = o.w = DType::f32;
    else if (flag == "--dtype") {
      o.x = loopwright::parse_dtype(value.substr(0, value.find('x'))).value_or(DType::bf16);
      o.w = value.find('x') == std::string::npos ? o.x : loopwright::parse_dtype(value.substr(value.find('x') + 1)).value_or(o.x);
    }
    if (flag == "--shapes") o.shapes = read_shapes(value);
    if (flag == "--only") o.only = value;
    if (flag == "--json") o.json = value;
    if (flag == "--picks") o.picks = value;
    if (flag == "--gated") o.gated = value != "0";
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
