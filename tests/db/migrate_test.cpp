// Old files open: the frozen file of version 1, a file before the first migration, and a step to a version to come.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <regex>

#include "db/doctor.h"
#include "db/storage.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

const std::string kFixture = std::string(LOOPWRIGHT_SOURCE_DIR) + "/tests/db/fixtures/version_1.sql";

void load_sql(const std::string& path, const std::string& sql) {
  auto connection = Connection::open(path, Connection::Mode::create, 0);
  ASSERT_TRUE(connection.ok());
  Status status = (*connection)->execute(sql);
  ASSERT_TRUE(status.ok()) << status.error().message();
}

/// Every table and index as the file has it, without comments and blanks.
std::string describe_schema(Connection& connection) {
  auto statement = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
                                      "ORDER BY name");
  std::string text;
  while (*statement->step()) text += statement->read_text() + '\n';
  text = std::regex_replace(text, std::regex("--[^\n]*"), "");
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

TEST(MigrateTest, the_commented_schema_is_the_one_that_migrations_make) {
  auto migrated = Connection::open("", Connection::Mode::memory, 0);
  ASSERT_TRUE(migrate(**migrated, list_migrations()).ok());
  auto commented = Connection::open("", Connection::Mode::memory, 0);
  Status status = (*commented)->execute(read_bytes(std::string(LOOPWRIGHT_SOURCE_DIR) + "/db/schema.sql"));
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(describe_schema(**migrated), describe_schema(**commented));
  EXPECT_EQ(*(*commented)->query_int("PRAGMA user_version"), current_schema_version());
  EXPECT_EQ(*(*commented)->query_int("PRAGMA application_id"), kApplicationId);
}

TEST(MigrateTest, every_column_has_a_comment_or_a_self_explaining_neighbour) {
  std::string schema = read_bytes(std::string(LOOPWRIGHT_SOURCE_DIR) + "/db/schema.sql");
  std::size_t tables = 0;
  for (std::size_t at = 0; (at = schema.find("CREATE TABLE", at)) != std::string::npos; ++at) {
    ++tables;
    std::size_t line = schema.rfind('\n', at - 2);
    EXPECT_EQ(schema.compare(line + 1, 2, "--"), 0) << schema.substr(at, 40);
  }
  EXPECT_EQ(tables, 18u);
}

TEST(MigrateTest, a_file_of_version_1_is_read_written_and_says_the_same) {
  TempFolder folder;
  std::string path = folder.file("old.lwdb");
  load_sql(path, read_bytes(kFixture));
  auto report = check_file(path);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_FALSE(report->is_damaged()) << report->text();
  {
    auto recorder = Recorder::open(path);
    ASSERT_TRUE(recorder.ok()) << recorder.error().message();
    ASSERT_TRUE(recorder->add_policy({{}, "new", "new\n"}).ok());
  }
  auto query = Query::open(path);
  auto workload = query->list_workloads()->at(0);
  EXPECT_EQ(workload.text, sample_workload_text());
  std::vector<std::string> lines = describe_variants(*query, workload.digest);
  ASSERT_EQ(lines.size(), 3u);
  // The digests are frozen with the file: a change of canonical text would orphan everybody's tuning results.
  EXPECT_NE(lines[0].find("exact | s0 in 1..64 | 49503e1fb1f10e6134201670f80605d4a565d7f3b557b5367c7e299486f69ef9"),
            std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("| 900.5 |"), std::string::npos);
  EXPECT_EQ(query->list_trials({.with_samples = true})->size(), 7u);
  EXPECT_EQ(query->damaged_rows(), 0);
}

TEST(MigrateTest, a_file_before_the_first_migration_is_brought_up_and_read_without_being_changed) {
  TempFolder folder;
  std::string path = folder.file("zero.lwdb");
  load_sql(path, "PRAGMA application_id = " + std::to_string(kApplicationId) + "; CREATE TABLE leftover(x); DROP TABLE leftover");
  std::string before = read_bytes(path);
  {
    auto query = Query::open(path);
    ASSERT_TRUE(query.ok()) << query.error().message();
    EXPECT_TRUE(query->list_workloads()->empty());
    EXPECT_EQ(query->list_plans()->size(), 0u);
  }
  EXPECT_EQ(read_bytes(path), before);
  ASSERT_TRUE(Recorder::open(path).ok());
  auto reopened = Connection::open(path, Connection::Mode::read_only, 0);
  EXPECT_EQ(*(*reopened)->query_int("PRAGMA user_version"), current_schema_version());
}

TEST(MigrateTest, a_later_migration_runs_on_a_full_file_and_a_failing_one_leaves_it_as_it_was) {
  TempFolder folder;
  std::string path = folder.file("db.lwdb");
  make_sample_file(path);
  auto connection = open_for_writing(path, 100, true);
  ASSERT_TRUE(connection.ok());
  std::vector<Migration> steps(list_migrations().begin(), list_migrations().end());
  int next = current_schema_version() + 1;
  steps.push_back({next, "add", "ALTER TABLE best ADD COLUMN note TEXT NOT NULL DEFAULT ''"});
  steps.push_back({next + 1, "broken", "CREATE TABLE fine(x); CREATE TABLE best(x)"});
  Status broken = migrate(**connection, steps);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(*(*connection)->query_int("PRAGMA user_version"), current_schema_version());
  EXPECT_EQ(*(*connection)->query_int("SELECT count(*) FROM sqlite_schema WHERE name = 'fine'"), 0);
  steps.pop_back();
  ASSERT_TRUE(migrate(**connection, steps).ok());
  EXPECT_EQ(*(*connection)->query_int("PRAGMA user_version"), next);
  EXPECT_EQ(*(*connection)->query_int("SELECT count(*) FROM best WHERE note = ''"), 2);
  EXPECT_EQ(migrate(**connection, list_migrations()).error().code, ErrorCode::db_newer);
}

}  // namespace
}  // namespace loopwright::db::test
