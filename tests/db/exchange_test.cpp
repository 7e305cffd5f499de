// Export, import, merge and diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "db/exchange.h"
#include "db/sqlite.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

namespace fs = std::filesystem;

class ExchangeTest : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("first.lwdb");
  std::string other = folder.file("other.lwdb");
  Sample sample = make_sample_file(path);

  std::string write_export(const std::string& file, const ExportOptions& options = {}) {
    std::ostringstream out;
    Status status = export_lines(file, out, options);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return out.str();
  }
  /// Without the comments, which name the file.
  static std::string drop_comments(const std::string& text) {
    std::istringstream in(text);
    std::string kept, line;
    while (std::getline(in, line)) {
      if (!line.starts_with("#")) kept += line + '\n';
    }
    return kept;
  }
  MergeReport import_text(const std::string& file, const std::string& text, const MergeOptions& options = {}) {
    std::istringstream in(text);
    auto report = import_lines(file, in, options);
    EXPECT_TRUE(report.ok()) << report.error().message();
    return report.ok() ? *report : MergeReport{};
  }
  /// Changes the winner of the first range in a file.
  void change_best(const std::string& file, double median_ns, UnixNs later_ns, Rigor rigor) {
    auto recorder = Recorder::open(file);
    BestRow best = recorder->read().list_best({})->at(0).best;
    best.candidate = sample.candidates[0];
    best.median_ns = median_ns;
    best.updated_ns += later_ns;
    best.rigor = rigor;
    ASSERT_TRUE(recorder->put_best(best).ok());
  }
  BestRow first_best(const std::string& file) { return Query::open(file)->list_best({})->at(0).best; }
};

TEST_F(ExchangeTest, the_same_content_gives_the_same_bytes_whatever_its_history) {
  std::string text = write_export(path, {.with_trials = true});
  EXPECT_EQ(text, write_export(path, {.with_trials = true}));
  // Another file, filled in another order (import sorts by table, not by history).
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  std::reverse(all.begin() + 2, all.end());
  std::string reversed;
  for (const std::string& line : all) reversed += line + '\n';
  MergeReport report = import_text(other, reversed, {.with_artifacts = true});
  EXPECT_EQ(report.tables["trial"].inserted, 7);
  std::string again = write_export(other, {.with_trials = true});
  auto without_run_state = [](std::string t) {  // a running run is an interrupted one elsewhere
    for (std::size_t at; (at = t.find("\"state\":\"running\"")) != std::string::npos;) t.replace(at, 17, "\"state\":\"interrupted\"");
    return t;
  };
  EXPECT_EQ(without_run_state(drop_comments(text)), drop_comments(again));
}

TEST_F(ExchangeTest, an_export_without_trials_holds_what_is_served_and_what_it_stands_on) {
  std::string text = write_export(path);
  EXPECT_EQ(text.find("\"table\":\"trial\""), std::string::npos);
  EXPECT_EQ(text.find("image_zstd_base64"), std::string::npos);
  import_text(other, text);
  auto query = Query::open(other);
  EXPECT_EQ(query->list_best({})->size(), 2u);
  EXPECT_EQ(query->list_verifications(sample.candidates[0])->size(), 1u);
  EXPECT_TRUE(query->find_plan("rmsnorm").ok());
}

TEST_F(ExchangeTest, imported_winners_are_claims_until_verified_and_no_machine_code_comes_along) {
  std::string text = write_export(path, {.with_trials = true, .with_artifacts = true});
  MergeReport report = import_text(other, text);
  EXPECT_EQ(report.unverified, 2);
  EXPECT_FALSE(report.tables.contains("artifact"));
  {
    auto query = Query::open(other);
    EXPECT_TRUE(query->list_artifacts()->empty());
    auto list = query->find_variants(sample.workload, sample_match());
    ASSERT_EQ(list->variants.size(), 1u);  // the default, to be built from its trace
    EXPECT_EQ(list->variants[0].artifact, "");
    EXPECT_EQ(query->list_provenance()->back().action, "inserted");
  }
  // Built and verified here, the claim becomes a fact, and importing again leaves it one.
  {
    auto recorder = Recorder::open(other);
    BestRow best = recorder->read().list_best({})->at(0).best;
    best.verified = true;
    ASSERT_TRUE(recorder->put_best(best).ok());
  }
  MergeReport second = import_text(other, text);
  EXPECT_EQ(second.tables["best"].same, 2);
  EXPECT_TRUE(first_best(other).verified);
}

TEST_F(ExchangeTest, machine_code_that_was_asked_for_comes_marked_and_loads_only_when_allowed) {
  std::string text = write_export(path, {.with_artifacts = true});
  import_text(other, text, {.with_artifacts = true});
  auto query = Query::open(other);
  auto list = query->find_variants(sample.workload, sample_match());
  ASSERT_EQ(list->variants.size(), 3u);
  EXPECT_EQ(list->variants[0].artifact, sample.artifacts[1]);
  EXPECT_TRUE(list->variants[0].artifact_is_foreign);
  EXPECT_EQ(query->load_artifact(sample.artifacts[1]).error().code, ErrorCode::unsupported);
  auto artifact = query->load_artifact(sample.artifacts[1], true);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message();
  EXPECT_EQ(*artifact, sample_artifact(1));
  auto explanation = query->explain(sample.workload, sample_match(), {{"s0", 17}}, 64);
  EXPECT_NE(explanation->considered[0].reason.find("built elsewhere"), std::string::npos);
}

TEST_F(ExchangeTest, machine_code_of_a_file_without_a_name_is_from_elsewhere_all_the_same) {
  std::string text = write_export(path, {.with_artifacts = true});
  const std::size_t at = text.find("# uuid ") + 7;
  for (const std::string& uuid : {std::string(), std::string("# uuid again\n# uuid ")}) {
    std::string nameless = text;
    nameless.replace(at, text.find('\n', at) - at, uuid);
    const std::string file = folder.file("nameless" + std::to_string(uuid.size()) + ".lwdb");
    import_text(file, nameless, {.with_artifacts = true});
    EXPECT_EQ(Query::open(file)->load_artifact(sample.artifacts[1]).error().code, ErrorCode::unsupported);
    EXPECT_FALSE(Query::open(file)->list_provenance()->front().origin.empty());
  }
  auto writable = Connection::open(path, Connection::Mode::read_write, 1000);
  ASSERT_TRUE((*writable)->execute("UPDATE meta SET value = '' WHERE key = 'uuid'").ok());
  ASSERT_TRUE(merge_file(other, path, {.with_artifacts = true}).ok());
  EXPECT_EQ(Query::open(other)->load_artifact(sample.artifacts[1]).error().code, ErrorCode::unsupported);
}

TEST_F(ExchangeTest, lines_that_were_changed_or_are_none_are_refused_with_their_number_and_nothing_is_written) {
  std::string text = write_export(path);
  std::string changed = text;
  changed.replace(changed.find("900.5"), 5, "100.5");
  for (const auto& [bad, where] : {std::pair{changed, "line "}, {text + "{]\n", "line "}, {std::string("[1]\n"), "line 1"},
                                   {std::string(""), "line 1"}, {text + "{\"table\":\"nonsense\"}\n", "line "}}) {
    std::istringstream in(bad);
    auto report = import_lines(other, in, {});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::syntax) << report.error().message();
    EXPECT_NE(report.error().where.find(where), std::string::npos) << report.error().message();
    EXPECT_FALSE(fs::exists(other));
  }
  std::istringstream newer("{\"format\":99,\"schema\":1,\"table\":\"meta\"}\n");
  EXPECT_EQ(import_lines(other, newer, {}).error().code, ErrorCode::db_newer);
}

TEST_F(ExchangeTest, policies_decide_which_of_two_winners_stays_and_provenance_says_so) {
  import_text(other, write_export(path), {.with_artifacts = true});
  change_best(other, 950, 1000, Rigor::estimate);  // newer, slower, less rigorous
  struct Case {
    MergePolicy policy;
    bool replaced;
  };
  for (auto [policy, replaced] : {Case{MergePolicy::newest, true}, Case{MergePolicy::fastest, false},
                                  Case{MergePolicy::most_rigorous, false}}) {
    std::string mine = folder.file("mine.lwdb");
    fs::copy_file(path, mine, fs::copy_options::overwrite_existing);
    auto report = merge_file(mine, other, {.policy = policy, .reason = "test"});
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->tables["best"].replaced, replaced ? 1 : 0) << name(policy);
    EXPECT_EQ(report->tables["best"].kept, replaced ? 0 : 1);
    EXPECT_EQ(report->tables["best"].same, 1);
    EXPECT_EQ(report->conflicts.size(), 1u);
    EXPECT_EQ(first_best(mine).median_ns, replaced ? 950 : 900.5);
    auto provenance = Query::open(mine)->list_provenance();
    ASSERT_FALSE(provenance->empty());
    EXPECT_EQ(provenance->back().action, replaced ? "unverified" : "kept");
    EXPECT_EQ(provenance->back().origin, Query::open(other)->info()->uuid);
    EXPECT_NE(provenance->back().reason.find("test"), std::string::npos);
  }
}

TEST_F(ExchangeTest, policy_fail_writes_nothing_and_a_dry_run_neither) {
  import_text(other, write_export(path));
  change_best(other, 950, 1000, Rigor::estimate);
  std::string before = read_bytes(path);
  auto refused = merge_file(path, other, {.policy = MergePolicy::fail});
  EXPECT_EQ(refused.error().code, ErrorCode::duplicate_name);
  EXPECT_EQ(first_best(path).median_ns, 900.5);
  auto dry = merge_file(path, other, {.dry_run = true});
  ASSERT_TRUE(dry.ok()) << dry.error().message();
  EXPECT_EQ(dry->tables["best"].replaced, 1);
  EXPECT_EQ(first_best(path).median_ns, 900.5);
  auto fresh = merge_file(folder.file("none.lwdb"), path, {.dry_run = true});
  EXPECT_EQ(fresh->tables["best"].inserted, 2);
  EXPECT_FALSE(fs::exists(folder.file("none.lwdb")));
}

TEST_F(ExchangeTest, two_devices_in_one_file_each_keep_their_own_winner) {
  DeviceRow second = sample_device();
  second.cores = 64;
  second.model = "big";
  {
    auto recorder = Recorder::open(other);
    fill_sample(*recorder);
    auto device = recorder->add_device(second);
    for (std::size_t i = 0; i < 2; ++i) {
      BestRow best = recorder->read().list_best({})->at(i).best;
      best.device = *device;
      best.candidate = sample.candidates[2 - i];
      ASSERT_TRUE(recorder->put_best(best).ok());
    }
  }
  ASSERT_TRUE(merge_file(path, other, {.with_artifacts = true}).ok());
  auto query = Query::open(path);
  DeviceMatch match = sample_match();
  EXPECT_EQ(query->find_variants(sample.workload, match)->variants[0].candidate.digest, sample.candidates[1]);
  match.device = second;
  EXPECT_EQ(query->find_variants(sample.workload, match)->variants[0].candidate.digest, sample.candidates[2]);
}

TEST_F(ExchangeTest, of_two_trials_of_one_number_the_one_that_is_there_stays) {
  fs::copy_file(path, other);
  for (const auto& [file, median_ns] : {std::pair{path, 111.0}, {other, 222.0}}) {  // the run went on in both copies
    auto recorder = Recorder::open(file);
    TrialRow trial = sample_trial(sample, sample.run, 1000);
    trial.n = 0;
    trial.samples_ns = {median_ns, median_ns, median_ns};
    ASSERT_TRUE(recorder->add_trial(trial).ok());
  }
  const auto count = [&] { return Query::open(path)->list_trials({})->size(); };
  const std::size_t before = count();
  const auto report = merge_file(path, other, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->tables.at("trial").inserted, 0);
  EXPECT_EQ(count(), before);
  EXPECT_EQ(Query::open(path)->list_trials({})->back().median_ns, 111);
}

TEST_F(ExchangeTest, a_merge_takes_what_is_whole_of_a_damaged_file) {
  make_sample_file(other);
  fs::copy_file(path, folder.file("damaged.lwdb"));
  std::string bytes = read_bytes(folder.file("damaged.lwdb"));
  for (std::size_t at; (at = bytes.find("split i by 2 tail")) != std::string::npos;) bytes.replace(at, 7, "spoil i");
  write_bytes(folder.file("damaged.lwdb"), bytes);
  auto report = merge_file(folder.file("new.lwdb"), folder.file("damaged.lwdb"), {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->tables["candidate"].inserted, 2);
  EXPECT_EQ(report->tables["best"].inserted, 1);
  EXPECT_EQ(report->tables["best"].ignored, 1);
}

TEST_F(ExchangeTest, a_file_that_is_being_tuned_is_busy_for_merge_and_free_for_export) {
  make_sample_file(other);
  auto recorder = Recorder::open(path);
  EXPECT_EQ(merge_file(path, other, {}).error().code, ErrorCode::busy);
  EXPECT_FALSE(write_export(path).empty());
}

TEST_F(ExchangeTest, diff_names_fields) {
  fs::copy_file(path, other);
  EXPECT_TRUE(diff_files(path, other)->empty());
  {
    auto recorder = Recorder::open(other);
    CandidateRow tried = *recorder->read().find_candidate(sample.candidates[0]);
    tried.trace += "parallel i\n";
    tried.is_default = false;
    ASSERT_TRUE(recorder->add_candidate(tried).ok());
    PlanRow again = recorder->read().list_plans()->at(0);
    again.created_ns += 7;
    ASSERT_TRUE(recorder->add_plan(again).ok());
    EXPECT_NE(recorder->read().list_plans()->at(0).created_ns, Query::open(path)->list_plans()->at(0).created_ns);
  }
  EXPECT_TRUE(diff_files(path, other)->empty()) << "what was only tried, and when a plan was stored, serves nobody";
  change_best(other, 950, 0, Rigor::measure);
  {
    auto recorder = Recorder::open(other);
    ASSERT_TRUE(recorder->add_workload({{}, "workload new", "", ""}).ok());
  }
  auto diff = diff_files(path, other);
  ASSERT_EQ(diff->size(), 3u);
  EXPECT_EQ(diff->at(0).side, '>');
  EXPECT_EQ(diff->at(0).table, "workload");
  EXPECT_EQ(diff->at(1).side, '<');
  EXPECT_EQ(diff->at(1).key, sample.candidates[1].substr(0, 16) + " row_reduction {\"rows\":2}") << "it serves there no more";
  EXPECT_EQ(diff->at(2).side, '!');
  EXPECT_NE(diff->at(2).detail.find("median_ns 900.5 → 950.0"), std::string::npos) << diff->at(2).detail;
}

}  // namespace
}  // namespace loopwright::db::test
