#include "db/record.h"

#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <random>

#include "db/file_lock.h"
#include "db/storage.h"
#include "db/store.h"
#include "src/support/digest.h"

namespace loopwright::db {

namespace {

/// Computes the digest, and stores the row unless one with that digest is there.
template <class Row>
Result<Digest> add_row(Connection& connection, Row row) {
  row.digest = compute_digest(row);
  LW_CHECK(insert_row(connection, row, "ON CONFLICT(digest) DO NOTHING"));
  return row.digest;
}

std::string make_random_digest() {
  std::random_device random;
  std::string seed;
  for (int i = 0; i < 8; ++i) seed += std::to_string(random()) + ' ';
  return sha256_hex(seed + std::to_string(getpid()) + std::to_string(read_clock_ns()));
}

Result<std::vector<std::uint8_t>> compress(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint8_t> out(ZSTD_compressBound(bytes.size()));
  std::size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  if (ZSTD_isError(size)) {
    return Error{ErrorCode::db_other, "compress an artifact", ZSTD_getErrorName(size), "", ""};
  }
  out.resize(size);
  return out;
}

}  // namespace

Status create_database(const std::string& path) {
  // Whoever gets the lock makes the file; the others find it there. The writer of a long run makes it first thing, so
  // nobody waits for that run.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (access(path.c_str(), F_OK) == 0) return check_header(path);
    auto lock = FileLock::take(path, "create", 0);
    if (lock.ok()) LW_CHECK(create_file_locked(path));
    if (!lock.ok() && lock.error().code != ErrorCode::busy) return lock.error();
    if (!lock.ok()) usleep(10'000);
  }
  return check_header(path);
}

Recorder::Recorder(std::shared_ptr<Connection> connection, std::unique_ptr<FileLock> lock)
    : lock_(std::move(lock)), connection_(connection), query_(Query(std::move(connection))) {}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&& other) noexcept {
  // Members would be replaced in order, and the lock must outlive the connection.
  connection_ = std::move(other.connection_);
  query_ = std::move(other.query_);
  lock_ = std::move(other.lock_);
  return *this;
}
Recorder::~Recorder() = default;

Result<Recorder> Recorder::open(const std::string& path, Options options) {
  if (access(path.c_str(), F_OK) == 0) {
    LW_CHECK(check_header(path));  // before a lock file is left beside somebody else's file
  } else if (!options.create) {
    LW_CHECK(check_header(path));
  }
  LW_TRY(auto lock, FileLock::take(path, options.command, options.writer_wait_ms));
  if (options.create) LW_CHECK(create_file_locked(path));
  LW_TRY(auto connection, open_for_writing(path, options.busy_timeout_ms, options.check));
  return Recorder(std::move(connection), std::move(lock));
}

const std::string& Recorder::path() const { return connection_->path(); }

Status Recorder::commit_together(const std::function<Status()>& writes) {
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_CHECK(writes());
  return transaction.commit();
}

Result<Digest> Recorder::add_device(const DeviceRow& row) {
  DeviceRow full = row;
  full.hard_digest = compute_hard_digest(row);
  return add_row(*connection_, std::move(full));
}
Result<Digest> Recorder::add_toolchain(const ToolchainRow& row) { return add_row(*connection_, row); }
Result<Digest> Recorder::add_policy(const PolicyRow& row) { return add_row(*connection_, row); }
Result<Digest> Recorder::add_workload(const WorkloadRow& row) { return add_row(*connection_, row); }
Result<Digest> Recorder::add_probe(const ProbeRow& row) { return add_row(*connection_, row); }

Result<Digest> Recorder::add_range(const RangeRow& row) {
  RangeRow full = row;
  LW_TRY(full.guard, Guard::parse(row.guard.text()));  // as it will be read: digests are over what is stored
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_TRY(Digest digest, add_row(*connection_, full));
  LW_CHECK(store_range_symbols(*connection_, digest, full.guard));
  LW_CHECK(transaction.commit());
  return digest;
}

Result<Digest> Recorder::add_candidate(const CandidateRow& row) {
  LW_TRY(Digest digest, add_row(*connection_, row));
  // The search may meet the default picks before anybody says that they are the default.
  if (row.is_default) {
    LW_TRY(Statement statement, connection_->prepare("UPDATE candidate SET is_default = 1 WHERE digest = ? AND "
                                                     "is_default = 0"));
    LW_CHECK(statement.bind(digest).run());
  }
  return digest;
}

Result<Digest> Recorder::add_trial(const TrialRow& row) {
  TrialRow full = row;
  if (full.n == 0) summarise_samples(full);
  if (full.created_ns == 0) full.created_ns = read_clock_ns();
  return add_row(*connection_, std::move(full));
}

Result<Digest> Recorder::add_verification(const VerificationRow& row) {
  VerificationRow full = row;
  if (full.created_ns == 0) full.created_ns = read_clock_ns();
  return add_row(*connection_, std::move(full));
}

Result<Digest> Recorder::add_block(const BlockRow& row) {
  BlockRow full = row;
  if (full.created_ns == 0) full.created_ns = read_clock_ns();
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_TRY(Digest digest, add_row(*connection_, std::move(full)));
  LW_CHECK(bump_generation(*connection_));
  LW_CHECK(transaction.commit());
  return digest;
}

Result<Digest> Recorder::add_plan(const PlanRow& row) {
  PlanRow full = row;
  full.graph_digest = sha256_hex(full.graph_text);
  if (full.created_ns == 0) full.created_ns = read_clock_ns();
  full.digest = compute_digest(full);
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  // Storing it again makes it the newest of its name again.
  LW_CHECK(insert_row(*connection_, full, "ON CONFLICT(digest) DO UPDATE SET created_ns = excluded.created_ns"));
  LW_CHECK(bump_generation(*connection_));
  LW_CHECK(transaction.commit());
  return full.digest;
}

Result<Digest> Recorder::put_best(const BestRow& row) {
  BestRow full = row;
  if (full.updated_ns == 0) full.updated_ns = read_clock_ns();
  full.digest = compute_digest(full);
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_CHECK(replace_best(*connection_, full));
  LW_CHECK(bump_generation(*connection_));
  LW_CHECK(transaction.commit());
  return full.digest;
}

Status Recorder::set_best_state(const Digest& candidate, const Digest& device, BestState state) {
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_TRY(auto rows, select_rows<BestRow>(*connection_, "WHERE t.candidate_id = (SELECT id FROM candidate WHERE digest = ?)",
                                         candidate));
  for (BestRow& row : rows) {
    if (!device.empty() && row.device != device) continue;
    row.state = state;
    row.updated_ns = read_clock_ns();
    row.digest = compute_digest(row);
    LW_CHECK(replace_best(*connection_, row));
  }
  LW_CHECK(bump_generation(*connection_));
  return transaction.commit();
}

Status Recorder::retire_ranges(const Digest& workload, const Digest& device, const Digest& toolchain,
                               const Digest& policy, const std::vector<Digest>& keep) {
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_TRY(auto rows, select_rows<BestRow>(*connection_, "WHERE t.range_id IN (SELECT r.id FROM range r JOIN workload w "
                                         "ON w.id = r.workload_id WHERE w.digest = ?)", workload));
  LW_TRY(Statement remove, connection_->prepare("DELETE FROM best WHERE digest = ?"));
  for (const BestRow& row : rows) {
    bool is_kept = std::find(keep.begin(), keep.end(), row.range) != keep.end();
    if (is_kept || row.device != device || row.toolchain != toolchain || row.policy != policy) continue;
    LW_CHECK(remove.bind(row.digest).run());
  }
  LW_CHECK(bump_generation(*connection_));
  return transaction.commit();
}

Result<Digest> Recorder::put_artifact(const Digest& candidate, const Digest& toolchain, const Artifact& artifact) {
  std::string header = artifact.header_text();
  StoredArtifact stored;
  stored.row.digest = compute_artifact_digest(header, artifact.image);
  stored.row.candidate = candidate;
  stored.row.toolchain = toolchain;
  stored.row.target = artifact.target;
  stored.row.image_bytes = static_cast<std::int64_t>(artifact.image.size());
  stored.row.created_ns = read_clock_ns();
  stored.header = std::move(header);
  LW_TRY(stored.compressed, compress(artifact.image));
  LW_TRY(Transaction transaction, Transaction::begin(*connection_));
  LW_CHECK(replace_artifact(*connection_, stored));
  LW_CHECK(bump_generation(*connection_));
  LW_CHECK(transaction.commit());
  return stored.row.digest;
}

Result<Digest> Recorder::begin_run(const RunRow& row) {
  RunRow full = row;
  full.digest = make_random_digest();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  full.host = host;
  full.pid = getpid();
  full.started_ns = read_clock_ns();
  full.state = RunState::running;
  LW_CHECK(insert_row(*connection_, full, ""));
  return full.digest;
}

Status Recorder::save_search_state(const Digest& run, const std::string& search_state) {
  LW_TRY(Statement statement, connection_->prepare("UPDATE run SET search_state = ? WHERE digest = ?"));
  return statement.bind(search_state).bind(run).run();
}

Status Recorder::set_run_state(const Digest& run, RunState state) {
  LW_TRY(Statement statement, connection_->prepare("UPDATE run SET state = ?, ended_ns = ? WHERE digest = ?"));
  std::int64_t ended_ns = state == RunState::running ? 0 : read_clock_ns();
  return statement.bind(name(state)).bind(ended_ns).bind(run).run();
}

Status Recorder::forget_wanted(const Digest& workload, const Bindings& values) {
  LW_TRY(Statement statement,
         connection_->prepare("DELETE FROM wanted WHERE workload_id = (SELECT id FROM workload WHERE digest = ?) AND "
                              "symbol_values = ?"));
  return statement.bind(workload).bind(write_bindings(values)).run();
}

}  // namespace loopwright::db
