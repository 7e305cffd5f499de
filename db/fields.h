// The columns of every table, listed once. SQL, JSON lines, digests and diffs are all made from these lists, so that a
// new column is one line here, one in rows.h, and a migration.
#pragma once

#include <string_view>
#include <variant>

#include "db/rows.h"

namespace loopwright::db {

/// Whether a column is part of the row's digest.
enum class Use : std::uint8_t { key, info };

struct Column {
  std::string_view name;
  Use use = Use::key;
};
/// A column `<name>_id` that refers to a row of `table`; in structs, JSON and digests it is that row's digest.
struct Reference {
  std::string_view name;
  std::string_view table;
  bool optional = false;
};

template <class Row>
struct Fields;  // name, and each(row, visit): visit(Column, member&) or visit(Reference, digest&) in column order

template <>
struct Fields<DeviceRow> {
  static constexpr std::string_view kTable = "device";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"hard_digest", Use::info}, r.hard_digest);
    visit(Column{"kind"}, r.kind);
    visit(Column{"arch"}, r.arch);
    visit(Column{"features"}, r.features);
    visit(Column{"cores"}, r.cores);
    visit(Column{"memory_bytes"}, r.memory_bytes);
    visit(Column{"vendor"}, r.vendor);
    visit(Column{"model"}, r.model);
    visit(Column{"target"}, r.target);
    visit(Column{"threads"}, r.threads);
    visit(Column{"l1_bytes"}, r.l1_bytes);
    visit(Column{"l2_bytes"}, r.l2_bytes);
    visit(Column{"l3_bytes"}, r.l3_bytes);
    visit(Column{"clock_khz"}, r.clock_khz);
    visit(Column{"power_limit_mw"}, r.power_limit_mw);
  }
};

template <>
struct Fields<ToolchainRow> {
  static constexpr std::string_view kTable = "toolchain";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"generator"}, r.generator);
    visit(Column{"compiler"}, r.compiler);
    visit(Column{"driver"}, r.driver);
    visit(Column{"flags"}, r.flags);
  }
};

template <>
struct Fields<PolicyRow> {
  static constexpr std::string_view kTable = "policy";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"name"}, r.name);
    visit(Column{"text"}, r.text);
  }
};

template <>
struct Fields<WorkloadRow> {
  static constexpr std::string_view kTable = "workload";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"text"}, r.text);
    visit(Column{"family", Use::info}, r.family);
    visit(Column{"accuracy", Use::info}, r.accuracy);
  }
};

template <>
struct Fields<RangeRow> {
  static constexpr std::string_view kTable = "range";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"workload", "workload"}, r.workload);
    visit(Column{"guard"}, r.guard);
    visit(Column{"alignment_bytes"}, r.guard.alignment_bytes);
    visit(Column{"weight", Use::info}, r.weight);
  }
};

template <>
struct Fields<ProbeRow> {
  static constexpr std::string_view kTable = "probe";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"workload", "workload"}, r.workload);
    visit(Column{"symbol_values"}, r.values);
    visit(Column{"role", Use::info}, r.role);
  }
};

template <>
struct Fields<CandidateRow> {
  static constexpr std::string_view kTable = "candidate";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"workload", "workload"}, r.workload);
    visit(Column{"template_name"}, r.template_name);
    visit(Column{"picks"}, r.picks);
    visit(Column{"trace"}, r.trace);
    visit(Column{"is_default", Use::info}, r.is_default);
  }
};

template <>
struct Fields<RunRow> {
  static constexpr std::string_view kTable = "run";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"command"}, r.command);
    visit(Column{"seed"}, r.seed);
    visit(Column{"budget_s"}, r.budget_s);
    visit(Column{"rigor"}, r.rigor);
    visit(Column{"state"}, r.state);
    visit(Column{"search_state"}, r.search_state);
    visit(Column{"host"}, r.host);
    visit(Column{"pid"}, r.pid);
    visit(Column{"generator"}, r.generator);
    visit(Reference{"device", "device", true}, r.device);
    visit(Reference{"toolchain", "toolchain", true}, r.toolchain);
    visit(Reference{"policy", "policy", true}, r.policy);
    visit(Column{"started_ns"}, r.started_ns);
    visit(Column{"ended_ns"}, r.ended_ns);
  }
};

template <>
struct Fields<TrialRow> {
  static constexpr std::string_view kTable = "trial";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"candidate", "candidate"}, r.candidate);
    visit(Reference{"probe", "probe"}, r.probe);
    visit(Reference{"device", "device"}, r.device);
    visit(Reference{"toolchain", "toolchain"}, r.toolchain);
    visit(Reference{"policy", "policy"}, r.policy);
    visit(Reference{"run", "run"}, r.run);
    visit(Column{"sequence"}, r.sequence);
    visit(Column{"outcome"}, r.outcome);
    visit(Column{"error_code"}, r.error_code);
    visit(Column{"error"}, r.error);
    visit(Column{"samples_ns"}, r.samples_ns);
    visit(Column{"n"}, r.n);
    visit(Column{"min_ns"}, r.min_ns);
    visit(Column{"median_ns"}, r.median_ns);
    visit(Column{"p10_ns"}, r.p10_ns);
    visit(Column{"p90_ns"}, r.p90_ns);
    visit(Column{"mad_ns"}, r.mad_ns);
    visit(Column{"compile_ns"}, r.compile_ns);
    visit(Column{"clock_before_khz"}, r.clock_before_khz);
    visit(Column{"clock_after_khz"}, r.clock_after_khz);
    visit(Column{"throttled"}, r.throttled);
    visit(Column{"created_ns"}, r.created_ns);
  }
};

template <>
struct Fields<VerificationRow> {
  static constexpr std::string_view kTable = "verification";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"candidate", "candidate"}, r.candidate);
    visit(Reference{"probe", "probe"}, r.probe);
    visit(Reference{"device", "device"}, r.device);
    visit(Reference{"toolchain", "toolchain"}, r.toolchain);
    visit(Reference{"run", "run"}, r.run);
    visit(Column{"seed"}, r.seed);
    visit(Column{"reference"}, r.reference);
    visit(Column{"max_abs_error"}, r.max_abs_error);
    visit(Column{"max_rel_error"}, r.max_rel_error);
    visit(Column{"max_ulp_error"}, r.max_ulp_error);
    visit(Column{"tolerance"}, r.tolerance);
    visit(Column{"red_zones_clean"}, r.red_zones_clean);
    visit(Column{"repeatable"}, r.repeatable);
    visit(Column{"passed"}, r.passed);
    visit(Column{"detail"}, r.detail);
    visit(Column{"created_ns"}, r.created_ns);
  }
};

template <>
struct Fields<BestRow> {
  static constexpr std::string_view kTable = "best";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Reference{"range", "range"}, r.range);
    visit(Reference{"device", "device"}, r.device);
    visit(Reference{"toolchain", "toolchain"}, r.toolchain);
    visit(Reference{"policy", "policy"}, r.policy);
    visit(Reference{"candidate", "candidate"}, r.candidate);
    visit(Column{"median_ns"}, r.median_ns);
    visit(Column{"default_median_ns"}, r.default_median_ns);
    visit(Column{"speedup"}, r.speedup);
    visit(Column{"worst_loss"}, r.worst_loss);
    visit(Column{"mean_loss"}, r.mean_loss);
    visit(Column{"held_out_probes"}, r.held_out_probes);
    visit(Column{"rigor"}, r.rigor);
    visit(Column{"complete"}, r.complete);
    visit(Column{"verified"}, r.verified);
    visit(Column{"state"}, r.state);
    visit(Reference{"run", "run", true}, r.run);
    visit(Column{"updated_ns"}, r.updated_ns);
  }
};

template <>
struct Fields<BlockRow> {
  static constexpr std::string_view kTable = "blocklist";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"candidate"}, r.candidate);
    visit(Column{"device_hard"}, r.device_hard);
    visit(Column{"generator"}, r.generator);
    visit(Column{"reason", Use::info}, r.reason);
    visit(Column{"created_ns", Use::info}, r.created_ns);
  }
};

template <>
struct Fields<PlanRow> {
  static constexpr std::string_view kTable = "plan";
  template <class Row, class Visit>
  static void each(Row& r, Visit&& visit) {
    visit(Column{"name"}, r.name);
    visit(Column{"graph_digest"}, r.graph_digest);
    visit(Column{"graph_text", Use::info}, r.graph_text);  // covered by graph_digest
    visit(Column{"plan_json"}, r.plan_json);
    visit(Column{"created_ns", Use::info}, r.created_ns);
  }
};

/// The tables whose rows travel between files, in an order in which every reference is already there.
using AnyRow = std::variant<DeviceRow, ToolchainRow, PolicyRow, WorkloadRow, RangeRow, ProbeRow, CandidateRow, RunRow,
                            TrialRow, VerificationRow, BestRow, BlockRow, PlanRow>;

}  // namespace loopwright::db
