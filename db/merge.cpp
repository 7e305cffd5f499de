#include "db/merge.h"

#include <array>
#include <sstream>

#include "db/file_lock.h"
#include "db/storage.h"

namespace loopwright::db {

namespace {

constexpr std::array<std::string_view, 4> kPolicies = {"newest", "fastest", "most-rigorous", "fail"};

/// One merge going on.
class Merge {
 public:
  Merge(Connection& connection, const Incoming& incoming, const MergeOptions& options)
      : connection_(connection), incoming_(incoming), options_(options), origin_(incoming.uuid.empty() ? "unknown" : incoming.uuid) {}

  Result<MergeReport> run() {
    LW_TRY(Transaction transaction, Transaction::begin(connection_));
    for (const AnyRow& row : incoming_.rows) {
      LW_CHECK(std::visit([&](const auto& typed) { return merge(typed); }, row));
    }
    for (const StoredArtifact& artifact : incoming_.artifacts) LW_CHECK(merge_artifact(artifact));
    LW_CHECK(bump_generation(connection_));
    if (!options_.dry_run) LW_CHECK(transaction.commit());
    return std::move(report_);
  }

 private:
  /// Rows whose digest is their whole content: there is nothing to decide.
  template <class Row>
  Status merge(const Row& row) {
    MergeReport::Counts& counts = report_.tables[std::string(Fields<Row>::kTable)];
    // Any conflict: a run that went on in two copies of a file has two trials of one number, and the first stays.
    Status stored = insert_row(connection_, row, "ON CONFLICT DO NOTHING");
    if (!stored.ok() && stored.error().code == ErrorCode::not_found) return ignore(row, stored.error(), counts);
    LW_CHECK(stored);
    if (connection_.changed_rows() == 0) {
      ++counts.same;
      return Unit{};
    }
    ++counts.inserted;
    if constexpr (std::is_same_v<Row, RangeRow>) LW_CHECK(store_range_symbols(connection_, row.digest, row.guard));
    // Trials come in thousands and name their run, whose provenance stands for theirs.
    if constexpr (std::is_same_v<Row, TrialRow> || std::is_same_v<Row, VerificationRow>) return Unit{};
    return record(Fields<Row>::kTable, row.digest, "inserted", "");
  }

  /// A row that stands on one which was damaged there, or left out of the lines.
  template <class Row>
  Status ignore(const Row& row, const Error& error, MergeReport::Counts& counts) {
    ++counts.ignored;
    report_.conflicts.push_back(std::string(Fields<Row>::kTable) + " " + row.digest.substr(0, 12) + ": ignored, " +
                                error.found);
    return Unit{};
  }

  Status merge(const RunRow& row) {
    RunRow ended = row;
    // It does not run here, and its search cannot go on without its worker.
    if (ended.state == RunState::running) ended.state = RunState::interrupted;
    return merge<RunRow>(ended);
  }

  Status merge(const CandidateRow& row) {
    LW_CHECK(merge<CandidateRow>(row));
    if (!row.is_default) return Unit{};  // the only thing about it that its digest does not say
    LW_TRY(Statement statement, connection_.prepare("UPDATE candidate SET is_default = 1 WHERE digest = ?"));
    return statement.bind(row.digest).run();
  }

  /// A winner from elsewhere is a claim until it was built and verified here, unless its machine code came with it.
  Status merge(const BestRow& incoming) {
    MergeReport::Counts& counts = report_.tables["best"];
    BestRow row = incoming;
    if (!options_.with_artifacts) row.verified = false;
    row.digest = compute_digest(row);
    LW_TRY(auto present, select_rows<BestRow>(connection_, "WHERE t.range_id = (SELECT id FROM range WHERE digest = ?) "
        "AND t.device_id = (SELECT id FROM device WHERE digest = ?) AND t.toolchain_id = (SELECT id FROM toolchain WHERE "
        "digest = ?) AND t.policy_id = (SELECT id FROM policy WHERE digest = ?)", row.range, row.device, row.toolchain,
        row.policy));
    if (present.empty()) {
      Status stored = store_best(row, "inserted", "nothing was there");
      if (!stored.ok() && stored.error().code == ErrorCode::not_found) return ignore(row, stored.error(), counts);
      ++counts.inserted;
      return stored;
    }
    BestRow as_here = row;  // verified or not is a fact of this file, not a difference
    as_here.verified = present.front().verified;
    if (list_differences(as_here, present.front()).empty()) {
      ++counts.same;
      return Unit{};
    }
    std::string why;
    bool replace = should_replace(present.front(), incoming, why);
    std::string conflict = "best " + present.front().digest.substr(0, 12) + " and " + incoming.digest.substr(0, 12) + ": ";
    for (const std::string& difference : list_differences(present.front(), as_here)) conflict += difference + "; ";
    report_.conflicts.push_back(conflict + (replace ? "replaced" : "kept") + ", " + why);
    if (options_.policy == MergePolicy::fail) {
      return Error{ErrorCode::duplicate_name, "merge with policy fail", conflict + "both want the same place",
                   connection_.path(), "choose --policy newest, fastest or most-rigorous"};
    }
    if (replace) {
      Status stored = store_best(row, "replaced", why);
      if (!stored.ok() && stored.error().code == ErrorCode::not_found) return ignore(row, stored.error(), counts);
      ++counts.replaced;
      return stored;
    }
    ++counts.kept;
    return record("best", present.front().digest, "kept", why);
  }

  bool should_replace(const BestRow& mine, const BestRow& other, std::string& why) const {
    std::ostringstream text;
    bool replace = false;
    switch (options_.policy) {
      case MergePolicy::newest:
        replace = other.updated_ns > mine.updated_ns;
        text << "measured at " << mine.updated_ns << " here, " << other.updated_ns << " there";
        break;
      case MergePolicy::fastest:
        replace = other.median_ns < mine.median_ns;
        text << "median " << mine.median_ns << " ns here, " << other.median_ns << " ns there";
        break;
      case MergePolicy::most_rigorous:
        replace = std::tuple(other.rigor, other.complete, other.held_out_probes, other.updated_ns) >
                  std::tuple(mine.rigor, mine.complete, mine.held_out_probes, mine.updated_ns);
        text << "rigor " << name(mine.rigor) << " here, " << name(other.rigor) << " there";
        break;
      case MergePolicy::fail: text << "policy fail"; break;
    }
    why = text.str();
    return replace;
  }

  Status store_best(const BestRow& row, std::string_view action, const std::string& why) {
    LW_CHECK(replace_best(connection_, row));
    if (!row.verified) {
      ++report_.unverified;
      return record("best", row.digest, "unverified", std::string(action) + ": " + why);
    }
    return record("best", row.digest, action, why);
  }

  Status merge_artifact(const StoredArtifact& artifact) {
    MergeReport::Counts& counts = report_.tables["artifact"];
    LW_TRY(Statement find, connection_.prepare(
        "SELECT 1 FROM artifact WHERE candidate_id = (SELECT id FROM candidate WHERE digest = ?) AND toolchain_id = "
        "(SELECT id FROM toolchain WHERE digest = ?) AND target = ?"));
    find.bind(artifact.row.candidate).bind(artifact.row.toolchain).bind(artifact.row.target);
    LW_TRY(bool there, find.step());
    if (there) {  // one that was built here is never replaced by a foreign one
      ++counts.kept;
      return Unit{};
    }
    StoredArtifact stored = artifact;
    stored.row.origin = origin_;
    Status written = replace_artifact(connection_, stored);
    if (!written.ok() && written.error().code == ErrorCode::not_found) {
      ++counts.ignored;
      return Unit{};
    }
    LW_CHECK(written);
    ++counts.inserted;
    return record("artifact", artifact.row.digest, "inserted", "foreign machine code, asked for");
  }

  Status record(std::string_view table, const Digest& row, std::string_view action, const std::string& why) {
    LW_TRY(Statement statement, connection_.prepare("INSERT INTO provenance(table_name, row_digest, origin, action, "
                                                    "reason, created_ns) VALUES (?, ?, ?, ?, ?, ?)"));
    std::string reason = "policy " + std::string(name(options_.policy));
    if (!why.empty()) reason += "; " + why;
    if (!options_.reason.empty()) reason += "; " + options_.reason;
    statement.bind(table).bind(row).bind(origin_).bind(action).bind(reason).bind(read_clock_ns());
    return statement.run();
  }

  Connection& connection_;
  const Incoming& incoming_;
  const MergeOptions& options_;
  const std::string origin_;  ///< never empty: that would say that it was made here
  MergeReport report_;
};

Result<MergeReport> merge_into_file(const std::string& path, const Incoming& incoming, const MergeOptions& options) {
  if (options.dry_run) {
    // On a copy in memory: a dry run leaves no file, no lock and no changed byte behind.
    LW_TRY(auto copy, Connection::open(path, Connection::Mode::memory, 0));
    Status there = check_header(path);
    if (there.ok()) {
      LW_TRY(auto source, open_for_reading(path, 5000, false));
      LW_CHECK(copy->copy_from(*source));
    } else if (there.error().code == ErrorCode::not_found) {
      LW_CHECK(migrate(*copy, list_migrations()));
    } else {
      return there.error();
    }
    return merge_rows(*copy, incoming, options);
  }
  LW_TRY(auto lock, FileLock::take(path, "merge", 0));
  LW_CHECK(create_file_locked(path));
  LW_TRY(auto connection, open_for_writing(path, 5000, true));
  return merge_rows(*connection, incoming, options);
}

}  // namespace

std::string_view name(MergePolicy policy) { return kPolicies[static_cast<std::size_t>(policy)]; }

std::optional<MergePolicy> parse_merge_policy(std::string_view text) {
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    if (kPolicies[i] == text) return static_cast<MergePolicy>(i);
  }
  return std::nullopt;
}

std::string MergeReport::text() const {
  std::ostringstream out;
  for (const auto& [table, c] : tables) {
    out << table << ": " << c.inserted << " inserted, " << c.replaced << " replaced, " << c.kept << " kept, " << c.same
        << " the same, " << c.ignored << " ignored\n";
  }
  for (const std::string& conflict : conflicts) out << conflict << '\n';
  if (unverified > 0) out << unverified << " winners are served only after they were built and verified here: run `loopwright db rebuild`\n";
  return out.str();
}

Result<MergeReport> merge_rows(Connection& connection, const Incoming& incoming, const MergeOptions& options) {
  return Merge(connection, incoming, options).run();
}

Result<MergeReport> import_lines(const std::string& path, std::istream& in, const MergeOptions& options) {
  LW_TRY(Incoming incoming, read_incoming(in, options.with_artifacts));
  return merge_into_file(path, incoming, options);
}

Result<MergeReport> merge_file(const std::string& path, const std::string& source, const MergeOptions& options) {
  LW_TRY(auto connection, open_for_reading(source, 5000, false));
  LW_TRY(Incoming incoming, read_incoming(*connection, options.with_artifacts));
  return merge_into_file(path, incoming, options);
}

}  // namespace loopwright::db
