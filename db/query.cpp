#include "db/query.h"

#include <algorithm>

#include "db/file_system.h"
#include "db/sqlite_error.h"
#include "db/storage.h"
#include "db/store.h"
#include "src/support/digest.h"

namespace loopwright::db {

namespace {

constexpr std::int64_t kNoteTimeoutMs = 100;

struct Condition {
  std::string where;
  std::vector<std::string> values;
  void add(const std::string& condition, const std::string& value) {
    if (value.empty()) return;
    where += (where.empty() ? "WHERE " : " AND ") + condition;
    values.push_back(value);
  }
  void bind_to(Statement& statement) const {
    for (const std::string& value : values) statement.bind(value);
  }
};

std::string refer(const std::string& table) {
  return "t." + table + "_id = (SELECT id FROM " + table + " WHERE digest = ?)";
}

Condition make_condition(const TrialFilter& filter) {
  Condition condition;
  condition.add(
      "t.candidate_id IN (SELECT c.id FROM candidate c JOIN workload w ON w.id = c.workload_id WHERE "
      "w.digest = ?)",
      filter.workload);
  condition.add(refer("candidate"), filter.candidate);
  condition.add(refer("device"), filter.device);
  condition.add(refer("toolchain"), filter.toolchain);
  condition.add(refer("policy"), filter.policy);
  condition.add(refer("run"), filter.run);
  return condition;
}

/// select_rows for a condition whose number of values is known only at run time.
template <class Row>
Result<std::vector<Row>> select_where(Connection& connection, const Condition& condition,
                                      const std::string& rest) {
  LW_TRY(Statement statement,
         connection.prepare("SELECT " + select_columns<Row>() + " FROM " + std::string(Fields<Row>::kTable) +
                            " t " + condition.where + rest));
  condition.bind_to(statement);
  return read_rows<Row>(connection, statement);
}

Status fill_run_ids(Connection& connection, std::vector<RunRow>& runs) {
  LW_TRY(Statement statement, connection.prepare("SELECT id FROM run WHERE digest = ?"));
  for (RunRow& run : runs) {
    LW_TRY(bool there, statement.bind(run.digest).step());
    if (there) run.id = statement.read_int();
    statement.reset();
  }
  return Unit{};
}

constexpr const char* kTables[] = {
    "device", "toolchain",    "policy", "workload", "range",      "probe",  "candidate", "run",
    "trial",  "verification", "best",   "artifact", "provenance", "wanted", "blocklist", "plan"};
const std::string kOfWorkload =
    "WHERE t.workload_id = (SELECT id FROM workload WHERE digest = ?) ORDER BY t.id";

}  // namespace

Query::Query(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
Query::Query(Query&&) noexcept = default;
Query& Query::operator=(Query&&) noexcept = default;
Query::~Query() = default;

Result<Query> Query::open(const std::string& path, Options options) {
  LW_TRY(auto connection, open_for_reading(path, options.busy_timeout_ms, options.check));
  return Query(std::move(connection));
}

std::int64_t Query::damaged_rows() const { return connection_->damaged_rows; }
const std::string& Query::access() const { return connection_->access; }

Result<FileInfo> Query::info() const {
  FileInfo info;
  info.path = connection_->path();
  info.access = access();
  info.file_system = find_file_system(info.path).name;
  LW_TRY(info.uuid, connection_->query_text("SELECT value FROM meta WHERE key = 'uuid'"));
  LW_TRY(info.created_by, connection_->query_text("SELECT value FROM meta WHERE key = 'created_by'"));
  LW_TRY(info.created_ns,
         connection_->query_int("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'created_ns'"));
  LW_TRY(info.generation, generation());
  LW_TRY(info.schema_version, connection_->query_int("PRAGMA user_version"));
  LW_TRY(info.journal_mode, connection_->query_text("PRAGMA journal_mode"));
  LW_TRY(std::int64_t pages, connection_->query_int("PRAGMA page_count"));
  LW_TRY(std::int64_t page_bytes, connection_->query_int("PRAGMA page_size"));
  info.file_bytes = pages * page_bytes;
  for (const char* table : kTables) {
    LW_TRY(info.row_counts[table], connection_->query_int(std::string("SELECT count(*) FROM ") + table));
  }
  return info;
}

Result<std::int64_t> Query::generation() const {
  return connection_->query_int("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'generation'");
}

Result<Artifact> Query::load_artifact(const Digest& digest, bool allow_foreign) const {
  LW_TRY(StoredArtifact stored, read_stored_artifact(*connection_, digest));
  if (!stored.row.origin.empty() && !allow_foreign) {
    return Error{ErrorCode::unsupported, "load artifact `" + digest + "`",
                 "it was built elsewhere (database " + stored.row.origin + ")", connection_->path(),
                 "build it here from its trace, or allow foreign machine code"};
  }
  LW_TRY(auto image, unpack_image(stored, connection_->path()));
  return Artifact::from_parts(stored.header, std::move(image));
}

Result<std::vector<ArtifactRow>> Query::list_artifacts(const Digest& candidate) const {
  LW_TRY(Statement statement,
         connection_->prepare(
             "SELECT a.digest, c.digest, t.digest, a.target, a.image_bytes, length(a.image), a.origin, "
             "a.created_ns FROM artifact a JOIN candidate c ON c.id = a.candidate_id JOIN toolchain t "
             "ON t.id = a.toolchain_id WHERE ?1 = '' OR c.digest = ?1 ORDER BY a.id"));
  statement.bind(candidate);
  std::vector<ArtifactRow> rows;
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return rows;
    ArtifactRow row;
    row.digest = statement.read_text();
    row.candidate = statement.read_text();
    row.toolchain = statement.read_text();
    row.target = statement.read_text();
    row.image_bytes = statement.read_int();
    row.stored_bytes = statement.read_int();
    row.origin = statement.read_text();
    row.created_ns = statement.read_int();
    if (statement.is_damaged()) {
      ++connection_->damaged_rows;
    } else {
      rows.push_back(std::move(row));
    }
  }
}

Result<PlanRow> Query::find_plan(const std::string& name_or_graph_digest) const {
  LW_TRY(auto plans, select_rows<PlanRow>(*connection_,
                                          "WHERE t.name = ?1 OR t.graph_digest = ?1 ORDER BY "
                                          "t.created_ns DESC, t.id DESC",
                                          name_or_graph_digest));
  if (!plans.empty()) return std::move(plans.front());
  LW_TRY(auto all, list_plans());
  std::string known;
  for (const PlanRow& plan : all) known += (known.empty() ? "" : ", ") + plan.name;
  return Error{ErrorCode::not_found, "find a plan", "no plan `" + name_or_graph_digest + "`",
               connection_->path(),
               known.empty() ? "tune a graph into this database first" : "one of: " + known};
}

Result<std::vector<PlanRow>> Query::list_plans() const {
  return select_rows<PlanRow>(*connection_, "ORDER BY t.name, t.created_ns DESC, t.id DESC");
}

Result<WorkloadRow> Query::find_workload(const Digest& digest) const {
  return select_row<WorkloadRow>(*connection_, digest);
}
Result<CandidateRow> Query::find_candidate(const Digest& digest) const {
  return select_row<CandidateRow>(*connection_, digest);
}

Result<RunRow> Query::find_run(const std::string& id_or_digest) const {
  bool is_id = !id_or_digest.empty() && id_or_digest.size() < 8 &&
               id_or_digest.find_first_not_of("0123456789") == std::string::npos;
  LW_TRY(auto runs,
         is_id ? select_rows<RunRow>(*connection_, "WHERE t.id = ?", std::int64_t{std::stoll(id_or_digest)})
               : select_rows<RunRow>(*connection_, "WHERE substr(t.digest, 1, length(?1)) = ?1 LIMIT 2",
                                     id_or_digest));
  bool too_short = !is_id && id_or_digest.size() < 8;
  if (runs.size() != 1 || too_short) {
    return Error{ErrorCode::not_found, "find run `" + id_or_digest + "`",
                 runs.empty() ? "no such run" : "not enough of its digest to tell", connection_->path(),
                 "a number or a digest that `loopwright db list FILE runs` shows"};
  }
  LW_CHECK(fill_run_ids(*connection_, runs));
  return std::move(runs.front());
}

Result<std::vector<WorkloadRow>> Query::list_workloads() const {
  return select_rows<WorkloadRow>(*connection_, "ORDER BY t.id");
}
Result<std::vector<DeviceRow>> Query::list_devices() const {
  return select_rows<DeviceRow>(*connection_, "ORDER BY t.id");
}
Result<std::vector<ToolchainRow>> Query::list_toolchains() const {
  return select_rows<ToolchainRow>(*connection_, "ORDER BY t.id");
}
Result<std::vector<PolicyRow>> Query::list_policies() const {
  return select_rows<PolicyRow>(*connection_, "ORDER BY t.id");
}
Result<std::vector<RunRow>> Query::list_runs() const {
  LW_TRY(auto runs, select_rows<RunRow>(*connection_, "ORDER BY t.id DESC"));
  LW_CHECK(fill_run_ids(*connection_, runs));
  return runs;
}
Result<std::vector<RangeRow>> Query::list_ranges(const Digest& workload) const {
  return select_rows<RangeRow>(*connection_, kOfWorkload, workload);
}
Result<std::vector<ProbeRow>> Query::list_probes(const Digest& workload) const {
  return select_rows<ProbeRow>(*connection_, kOfWorkload, workload);
}
Result<std::vector<CandidateRow>> Query::list_candidates(const Digest& workload) const {
  return select_rows<CandidateRow>(*connection_, kOfWorkload, workload);
}
Result<std::vector<VerificationRow>> Query::list_verifications(const Digest& candidate) const {
  return select_rows<VerificationRow>(*connection_, "WHERE " + refer("candidate") + " ORDER BY t.id",
                                      candidate);
}
Result<std::vector<BlockRow>> Query::list_blocks() const {
  return select_rows<BlockRow>(*connection_, "ORDER BY t.id");
}

Result<std::vector<TrialRow>> Query::list_trials(const TrialFilter& filter) const {
  std::string rest = " ORDER BY t.id";
  if (filter.limit >= 0) rest += " LIMIT " + std::to_string(filter.limit);
  LW_TRY(auto trials, select_where<TrialRow>(*connection_, make_condition(filter), rest));
  if (!filter.with_samples) {
    for (TrialRow& trial : trials) trial.samples_ns = {};
  }
  return trials;
}

Result<std::array<std::int64_t, kOutcomeCount>> Query::count_outcomes(const TrialFilter& filter) const {
  Condition condition = make_condition(filter);
  LW_TRY(Statement statement, connection_->prepare("SELECT t.outcome, count(*) FROM trial t " +
                                                   condition.where + " GROUP BY t.outcome"));
  condition.bind_to(statement);
  std::array<std::int64_t, kOutcomeCount> counts{};
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return counts;
    auto outcome = parse_outcome(statement.read_text());
    std::int64_t count = statement.read_int();
    if (statement.is_damaged() || !outcome) {
      ++connection_->damaged_rows;
    } else {
      counts[static_cast<std::size_t>(*outcome)] = count;
    }
  }
}

Result<std::vector<BestEntry>> Query::list_best(const BestFilter& filter) const {
  Condition condition;
  condition.add(
      "t.range_id IN (SELECT r.id FROM range r JOIN workload w ON w.id = r.workload_id WHERE w.digest = ?)",
      filter.workload);
  condition.add(refer("device"), filter.device);
  condition.add(refer("policy"), filter.policy);
  if (filter.state) condition.add("t.state = ?", std::string(name(*filter.state)));
  LW_TRY(auto rows, select_where<BestRow>(*connection_, condition, " ORDER BY t.id"));
  std::vector<BestEntry> entries;
  for (BestRow& row : rows) {
    auto range = select_row<RangeRow>(*connection_, row.range);
    auto candidate = select_row<CandidateRow>(*connection_, row.candidate);
    if (!range.ok() || !candidate.ok()) continue;  // damaged, and counted as such
    BestEntry entry{std::move(row), *std::move(range), *std::move(candidate), {}, {}, {}};
    auto device = select_row<DeviceRow>(*connection_, entry.best.device);
    auto policy = select_row<PolicyRow>(*connection_, entry.best.policy);
    auto workload = select_row<WorkloadRow>(*connection_, entry.range.workload);
    if (device.ok()) entry.device_model = device->model;
    if (policy.ok()) entry.policy_name = policy->name;
    if (workload.ok()) entry.family = workload->family;
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<WantedRow>> Query::list_wanted() const {
  LW_TRY(Statement statement,
         connection_->prepare(
             "SELECT w.digest, w.text, t.symbol_values, t.count, t.last_seen_ns FROM wanted t JOIN "
             "workload w ON w.id = t.workload_id ORDER BY t.count DESC, t.last_seen_ns DESC, t.id"));
  std::vector<WantedRow> rows;
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return rows;
    WantedRow row;
    row.workload = statement.read_text();
    row.workload_text = statement.read_text();
    auto values = parse_bindings(statement.read_text());
    row.count = statement.read_int();
    row.last_seen_ns = statement.read_int();
    if (statement.is_damaged() || !values.ok() || sha256_hex(row.workload_text) != row.workload) {
      ++connection_->damaged_rows;
      continue;
    }
    row.values = *std::move(values);
    rows.push_back(std::move(row));
  }
}

Result<std::vector<ProvenanceRow>> Query::list_provenance() const {
  LW_TRY(Statement statement,
         connection_->prepare("SELECT table_name, row_digest, origin, action, reason, created_ns "
                              "FROM provenance ORDER BY id"));
  std::vector<ProvenanceRow> rows;
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return rows;
    ProvenanceRow row;
    row.table = statement.read_text();
    row.row = statement.read_text();
    row.origin = statement.read_text();
    row.action = statement.read_text();
    row.reason = statement.read_text();
    row.created_ns = statement.read_int();
    if (statement.is_damaged()) {
      ++connection_->damaged_rows;
    } else {
      rows.push_back(std::move(row));
    }
  }
}

Status note_wanted(const std::string& path, const std::vector<WantedRow>& rows) {
  LW_CHECK(check_header(path));
  LW_TRY(auto connection, Connection::open(path, Connection::Mode::read_write, kNoteTimeoutMs));
  LW_TRY(std::int64_t version, connection->query_int("PRAGMA user_version"));
  if (version != current_schema_version()) {
    return make_file_error(ErrorCode::db_other, "note wanted shapes",
                           "schema version " + std::to_string(version), path,
                           "the next tuning run brings the file up to date");
  }
  LW_TRY(Transaction transaction, Transaction::begin(*connection));
  for (const WantedRow& row : rows) {
    if (!row.workload_text.empty() && sha256_hex(row.workload_text) == row.workload) {
      WorkloadRow workload;
      workload.digest = row.workload;
      workload.text = row.workload_text;
      LW_CHECK(insert_row(*connection, workload, "ON CONFLICT(digest) DO NOTHING"));
    }
    LW_TRY(Statement statement,
           connection->prepare(
               "INSERT INTO wanted(workload_id, symbol_values, count, last_seen_ns) SELECT id, ?, ?, ? "
               "FROM workload WHERE digest = ? ON CONFLICT(workload_id, symbol_values) DO UPDATE SET "
               "count = count + excluded.count, last_seen_ns = excluded.last_seen_ns"));
    UnixNs seen_ns = row.last_seen_ns == 0 ? read_clock_ns() : row.last_seen_ns;
    statement.bind(write_bindings(row.values)).bind(row.count).bind(seen_ns).bind(row.workload);
    LW_CHECK(statement.run());
    if (connection->changed_rows() == 0) {
      return make_file_error(ErrorCode::not_found, "note wanted shapes", "no workload `" + row.workload + "`",
                             path, "give the workload's text too");
    }
  }
  return transaction.commit();
}

}  // namespace loopwright::db
