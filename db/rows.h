// One plain struct a table. References between rows are digests, never row numbers: a row means the same in every file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"

namespace loopwright::db {

/// Lower-case hexadecimal SHA-256 (64 characters). Where a struct has one of its own, the write side computes it and
/// whatever the caller put there is ignored.
using Digest = std::string;

/// Nanoseconds since 1970, UTC.
using UnixNs = std::int64_t;
UnixNs read_clock_ns();

/// How much effort stands behind a `best` row; later is more.
enum class Rigor : std::uint8_t { estimate, measure, patient, exhaustive };
std::string_view name(Rigor rigor);
std::optional<Rigor> parse_rigor(std::string_view text);

/// Active rows are served, stale ones after them. stale: took another time when it was measured again, to be tuned again; demoted: lost to the default; blocked: never again.
enum class BestState : std::uint8_t { active, stale, demoted, blocked };
std::string_view name(BestState state);
std::optional<BestState> parse_best_state(std::string_view text);

enum class RunState : std::uint8_t { running, finished, interrupted, failed };
std::string_view name(RunState state);
std::optional<RunState> parse_run_state(std::string_view text);

/// A live machine. Hard parts decide whether numbers carry over at all; soft parts only how well.
struct DeviceRow {
  Digest digest;       ///< over all fields below
  Digest hard_digest;  ///< over the hard fields
  // hard
  std::string kind;      ///< `cpu` or `cuda`
  std::string arch;      ///< `x86_64`, `sm_90a`
  std::string features;  ///< instruction-set features the generator uses, sorted, separated by blanks
  std::int64_t cores = 0;         ///< CPU: physical cores; GPU: multiprocessors
  std::int64_t memory_bytes = 0;  ///< GPU: device memory, hard as its size class (next power of two); CPU: 0
  // soft
  std::string vendor;
  std::string model;
  std::string target;  ///< Target::text of the machine
  std::int64_t threads = 0;
  std::int64_t l1_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l3_bytes = 0;
  std::int64_t clock_khz = 0;
  std::int64_t power_limit_mw = 0;
};

/// What turned a trace into machine code. The generator version is hard, the rest is soft.
struct ToolchainRow {
  Digest digest;
  std::string generator;  ///< version of code generation; numbers and code of another one are at best `nearest`
  std::string compiler;   ///< `LLVM 19.1.7`, `NVRTC 12.9`
  std::string driver;     ///< GPU driver; empty on the CPU
  std::string flags;
};

/// How numbers were measured. Numbers of different policies are never compared.
struct PolicyRow {
  Digest digest;
  std::string name;
  std::string text;  ///< canonical text of every setting
};

struct WorkloadRow {
  Digest digest;  ///< SHA-256 of `text` alone, so that everybody who has the text can compute it
  std::string text;
  std::string family;    ///< e.g. `matmul`; for reading only
  std::string accuracy;  ///< `strict`, `tf32`, ...
};

/// A box of symbol values of one workload.
struct RangeRow {
  Digest digest;
  Digest workload;
  Guard guard;
  double weight = 1;  ///< share of use; budgets are divided by it
};

/// A concrete shape at which trials are made.
struct ProbeRow {
  Digest digest;
  Digest workload;
  Bindings values;
  std::string role;  ///< low, high, middle, ragged, user, held_out; the first writer decides, not part of the digest
};

struct CandidateRow {
  Digest digest;
  Digest workload;
  std::string template_name;
  std::string picks;  ///< JSON object, canonical (sorted keys, no blanks)
  std::string trace;
  bool is_default = false;  ///< the template's default picks; not part of the digest
};

struct TrialRow {
  Digest digest;
  Digest candidate, probe, device, toolchain, policy;
  Digest run;
  std::int64_t sequence = 0;  ///< position within its run, given by the caller; (run, sequence) is unique
  Outcome outcome = Outcome::ok;
  ErrorCode error_code = ErrorCode::ok;
  std::string error;  ///< message when the outcome is not ok
  std::vector<double> samples_ns;  ///< raw, in the order measured
  // computed from the samples by the write side when `n` is 0 and there are samples
  std::int64_t n = 0;
  double min_ns = 0, median_ns = 0, p10_ns = 0, p90_ns = 0, mad_ns = 0;
  double compile_ns = 0;
  std::int64_t clock_before_khz = 0, clock_after_khz = 0;
  bool throttled = false;
  UnixNs created_ns = 0;
};
/// Fills n, min, median, p10, p90 (linear interpolation) and mad (median absolute deviation) from the samples.
void summarise_samples(TrialRow& trial);

struct VerificationRow {
  Digest digest;
  Digest candidate, probe, device, toolchain, run;
  std::int64_t seed = 0;
  std::string reference;  ///< what it was compared with, e.g. `interpreter_f64`
  double max_abs_error = 0, max_rel_error = 0, max_ulp_error = 0;
  std::string tolerance;  ///< as text, e.g. `rel 1e-5 abs 1e-6`
  bool red_zones_clean = true;
  bool repeatable = true;
  bool passed = false;
  std::string detail;
  UnixNs created_ns = 0;
};

/// The winner of one range on one device with one toolchain under one policy.
struct BestRow {
  Digest digest;  ///< over every field below: a damaged row is noticed and not served
  Digest range, device, toolchain, policy, candidate;
  double median_ns = 0;
  double default_median_ns = 0;
  double speedup = 1;      ///< default_median / median, geometric mean over the range's probes
  double worst_loss = 0;   ///< 0.03: 3 % slower than the best known variant at the worst held-out probe
  double mean_loss = 0;
  std::int64_t held_out_probes = 0;
  Rigor rigor = Rigor::measure;
  bool complete = false;   ///< the run was not cut short by its budget
  bool verified = false;
  BestState state = BestState::active;
  Digest run;
  UnixNs updated_ns = 0;
};

/// A compiled candidate without its bytes.
struct ArtifactRow {
  Digest digest;  ///< of header text and image
  Digest candidate, toolchain;
  std::string target;
  std::int64_t image_bytes = 0;   ///< uncompressed
  std::int64_t stored_bytes = 0;  ///< compressed
  std::string origin;  ///< empty: built here; else the uuid of the database it was imported from
  UnixNs created_ns = 0;
};

/// One tuning run: its command and all that `resume` needs.
struct RunRow {
  Digest digest;        ///< random, made by begin_run: a run is an event, not a content
  std::int64_t id = 0;  ///< short number for people, unique in this file only; given by begin_run
  std::string command;
  std::uint64_t seed = 0;
  double budget_s = 0;  ///< 0: none
  Rigor rigor = Rigor::measure;
  RunState state = RunState::running;
  std::string search_state;  ///< JSON, opaque to the database
  std::string host;
  std::int64_t pid = 0;
  std::string generator;
  Digest device, toolchain, policy;  ///< may be empty
  UnixNs started_ns = 0, ended_ns = 0;
};

/// A workload at symbol values that somebody asked for and that had no tuned range.
struct WantedRow {
  Digest workload;
  std::string workload_text;  ///< stored as a workload when the file does not know it yet
  Bindings values;
  std::int64_t count = 1;
  UnixNs last_seen_ns = 0;
};

struct BlockRow {
  Digest digest;
  Digest candidate;
  Digest device_hard;     ///< empty: on every device
  std::string generator;  ///< empty: for ever; else only for this generator version
  std::string reason;
  UnixNs created_ns = 0;
};

/// All that the runtime needs to run a whole graph without the compiler.
struct PlanRow {
  Digest digest;
  std::string name;
  Digest graph_digest;  ///< SHA-256 of graph_text
  std::string graph_text;
  std::string plan_json;  ///< kernels in order with workload digests and buffer wiring
  UnixNs created_ns = 0;  ///< not part of the digest
};

/// What happened to a row that came from another file.
struct ProvenanceRow {
  std::string table;
  Digest row;
  std::string origin;  ///< uuid of the other database
  std::string action;  ///< inserted, replaced, kept, unverified, ignored
  std::string reason;
  UnixNs created_ns = 0;
};

}  // namespace loopwright::db
