#include "src/cli/output.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "src/cli/progress.h"
#include "src/cli/report.h"

namespace loopwright::cli {
namespace {

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(Table, IsCutToTheWidthAskedForAndWholeInJson) {
  Table table({"name", {"median", "median_ns"}, {"", "default_ns"}, "variant"});
  const std::string variant(200, 'v');
  table.add({"a", time_cell(1234), time_cell(777), variant});
  EXPECT_GT(widest_line(table.text(0)), 200u);
  EXPECT_EQ(widest_line(table.text(80)), 80u);
  EXPECT_NE(table.text(80).find("1.23 us"), std::string::npos) << "what fits is not cut";
  const nlohmann::json row = table.to_json()[0];
  EXPECT_EQ(row.at("median_ns"), 1234);
  EXPECT_EQ(row.at("variant"), variant);
  EXPECT_EQ(row.at("default_ns"), 777);
  EXPECT_EQ(table.text(0).find("777"), std::string::npos) << "a column without a title is for programs";
}

TEST(Output, WordsForAShellAreReadBackByOne) {
  for (const std::string word : {"a.db", "/x/y_z-1.db", "my file.db", "it's", "$HOME/x", "", "a;b", "*"}) {
    const std::string command = "printf %s " + quote_for_shell(word);
    FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    char text[64] = {};
    static_cast<void>(std::fread(text, 1, sizeof text - 1, pipe));
    ::pclose(pipe);
    EXPECT_EQ(std::string(text), word);
  }
  EXPECT_EQ(quote_for_shell("my.db"), "my.db");
}

TuneReport make_report() {
  TuneReport report{.run = std::string(64, 'a'), .graph = "g", .elapsed_s = 10};
  TunedWorkload good{.digest = std::string(64, 'b'), .family = "row_reduction", .default_ns = 123456, .best_ns = 10000,
                     .trials = 12345, .ranges = 12, .worst_loss = 0.123, .complete = true, .compared = true};
  good.outcomes[Outcome::ok] = 12000;
  TunedWorkload bad{.digest = std::string(64, 'c'), .family = "elementwise", .trials = 1, .complete = true,
                    .why_not = "wrong_result: 3 of 4 elements of y are off"};
  report.workloads = {good, bad};
  return report;
}

TEST(Report, SaysWhyAWorkloadHasNothingValidAndFitsATerminal) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(print_reports({make_report()}, "x.db", false), kNoVariant);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("cccccccc elementwise: no valid candidate\n  wrong_result: 3 of 4"), std::string::npos) << text;
  EXPECT_LE(widest_line(text), 80u) << text;
  ::testing::internal::CaptureStdout();
  print_reports({make_report()}, "x.db", true);
  const auto all = nlohmann::json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(all[0].at("workloads")[1].at("why_not"), "wrong_result: 3 of 4 elements of y are off");
}

TEST(Report, AStoppedRunNamesWhatIsLeftAndARatioThatWasNotRaced) {
  TuneReport report = make_report();
  report.workloads.pop_back();
  report.workloads[0].compared = false;
  report.workloads[0].trials = 1;
  report.cancelled = true;
  report.left = {"second", "third"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(print_reports({report}, "x.db", false), kPartial);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("12.35x?"), std::string::npos) << text;
  EXPECT_NE(text.find("1 trial in"), std::string::npos) << text;
  EXPECT_NE(text.find("loopwright resume aaaaaaaaaaaa --db x.db (then second, third)"), std::string::npos) << text;
}

TEST(Progress, TheClockGoesOnWhileNothingHappens) {
  ::testing::internal::CaptureStderr();
  {
    ProgressView view(ProgressView::Mode::live);
    view.update({.workload = "w", .workload_count = 1, .elapsed_s = 10, .left_s = 50, .phase = "default"});
    std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("0:10 gone, 0:50 left"), std::string::npos) << text;
  EXPECT_NE(text.find("0:11 gone, 0:49 left"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopwright::cli
