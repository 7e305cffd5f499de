// The exports in db/tuned: every row is taken, and every schedule in them still builds the workload it is of.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "db/exchange.h"
#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/driver/build.h"
#include "src/graph/workload.h"

namespace loopwright {
namespace {

std::vector<std::filesystem::path> list_exports() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(LOOPWRIGHT_SOURCE_DIR "/db/tuned"))
    if (entry.path().extension() == ".jsonl") out.push_back(entry.path());
  return out;
}

TEST(TunedDatabases, EveryScheduleStillBuilds) {
  ASSERT_FALSE(list_exports().empty());
  for (const std::filesystem::path& path : list_exports()) {
    const std::string file = (std::filesystem::temp_directory_path() / ("tuned_" + std::to_string(getpid()) + ".db")).string();
    for (const char* end : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(file + end);
    std::ifstream in(path);
    const auto report = db::import_lines(file, in, {});
    ASSERT_TRUE(report.ok()) << path << report.error().message();
    EXPECT_TRUE(report->conflicts.empty());
    const auto query = db::Query::open(file);
    ASSERT_TRUE(query.ok());
    EXPECT_EQ(query->damaged_rows(), 0);
    int built = 0;
    const auto workloads = query->list_workloads();
    ASSERT_TRUE(workloads.ok());
    for (const db::WorkloadRow& row : *workloads) {
      const auto workload = graph::parse_workload(row.text);
      ASSERT_TRUE(workload.ok()) << path << workload.error().message();
      const auto job = driver::make_job(*workload);
      ASSERT_TRUE(job.ok()) << path << job.error().message();
      const auto candidates = query->list_candidates(row.digest);
      ASSERT_TRUE(candidates.ok());
      for (const db::CandidateRow& candidate : *candidates) {
        const auto scheduled = driver::replay(*job, candidate.trace);
        ASSERT_TRUE(scheduled.ok()) << path << candidate.template_name << candidate.picks << scheduled.error().message();
        ++built;
      }
    }
    EXPECT_GT(built, 30);
    const auto plans = query->list_plans();
    ASSERT_TRUE(plans.ok());
    for (const db::PlanRow& plan : *plans) EXPECT_TRUE(PlanSpec::parse(plan.plan_json).ok()) << plan.name;
    for (const char* end : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(file + end);
  }
}

}  // namespace
}  // namespace loopwright
