// What the program says of ranges: as a table, as a drawing, and whether their times still hold.
#include <set>
#include <sstream>

#include "tests/unit/cli/program.h"

namespace loopwright::cli {
namespace {

class RangesProgram : public Program {
 protected:
  std::string tune_two_symbols() const {
    const std::string graph = write("two.lw", "graph two\nsymbol rows in 1..48\nsymbol columns in 2..64\ninput x: f32[rows, columns]\ny = softmax(x, axis=-1)\noutput y\n");
    const Ended e = run({"tune", graph, "--db", file("t.db"), "--budget", "8s", "--max-trials", "4", "--shapes-from", write("log", "rows=7 columns=33\nrows=40 columns=64 count=9\n")});
    EXPECT_TRUE(e.exit == 0 || e.exit == 2) << e.err;
    return graph;
  }
};

TEST_F(RangesProgram, ShowReportAndCanaryAgreeOnWhatIsStored) {
  const std::string graph = tune_two_symbols();
  const Ended shown = run({"--json", "show", graph, "ranges", "--db", file("t.db")});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  const json rows = json::parse(shown.out);
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    EXPECT_NE(row.at("range").get<std::string>().find("columns in "), std::string::npos) << "the graph's names of symbols";
    EXPECT_NE(row.at("range").get<std::string>().find("rows in "), std::string::npos);
    EXPECT_GE(row.at("worst_loss").get<double>(), row.at("mean_loss").get<double>());
    EXPECT_EQ(row.at("state"), "active");
    EXPECT_GT(row.at("median_ns").get<double>(), 0);
  }
  const Ended text = run({"show", graph, "ranges", "--db", file("t.db")});
  EXPECT_NE(text.out.find("held out"), std::string::npos) << text.out;

  const Ended drawn = run({"report", graph, "--db", file("t.db"), "--out", file("r.svg")});
  ASSERT_EQ(drawn.exit, 0) << drawn.err;
  const std::string svg = read("r.svg");
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("rows (logarithmic)"), std::string::npos);
  EXPECT_NE(svg.find("rows=40"), std::string::npos) << "the shape used most was measured";
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  for (const json& row : rows) EXPECT_NE(svg.find(row.at("range").get<std::string>()), std::string::npos);

  const Ended doctor = run({"--json", "db", "doctor", file("t.db"), "--canary", "3"});
  ASSERT_EQ(doctor.exit, 0) << doctor.err << doctor.out;
  std::size_t readings = 0;
  for (const json& finding : json::parse(doctor.out)) readings += finding.at("check") == "canary" ? 1 : 0;
  EXPECT_EQ(readings, std::min<std::size_t>(3, rows.size()) + 1) << doctor.out;
}

TEST_F(RangesProgram, WhatIsNotTunedIsSaid) {
  const std::string graph = small_graph();
  EXPECT_EQ(run({"show", graph, "ranges", "--db", file("none.db")}).exit, 1) << "no such file";
  const std::string other = write("other.lw", "graph other\ninput x: f32[4]\ny = exp(x)\noutput y\n");
  ASSERT_LE(run({"tune", other, "--db", file("t.db"), "--budget", "2s", "--max-trials", "1"}).exit, 2);
  const Ended shown = run({"show", graph, "ranges", "--db", file("t.db")});
  EXPECT_EQ(shown.exit, 3);
  EXPECT_NE(shown.out.find("not tuned"), std::string::npos) << shown.out;
  const Ended drawn = run({"report", graph, "--db", file("t.db"), "--out", file("r.svg")});
  EXPECT_EQ(drawn.exit, 3);
  EXPECT_NE(drawn.err.find("loopwright tune"), std::string::npos) << drawn.err;
  EXPECT_FALSE(fs::exists(file("r.svg")));
}

}  // namespace
}  // namespace loopwright::cli
