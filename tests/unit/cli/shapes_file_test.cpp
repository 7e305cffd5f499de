#include "src/cli/shapes_file.h"

#include "tests/unit/cli/program.h"

namespace loopwright::cli {
namespace {

class ShapesFile : public Program {
 protected:
  std::string read_as(const std::string& text, const std::vector<Symbol>& symbols = {{"tokens", 1, 100}}) const {
    const auto shapes = read_shape_counts(write("shapes", text), symbols);
    if (!shapes.ok()) return shapes.error().found + " at " + shapes.error().where.substr(shapes.error().where.find_last_of('/') + 1);
    std::string out;
    for (const ShapeCount& s : *shapes) {
      for (const auto& [name, value] : s.values) out += name + std::to_string(value) + " ";
      out += "x" + std::to_string(static_cast<int>(s.count)) + ";";
    }
    return out;
  }
};

TEST_F(ShapesFile, IsALogOrATable) {
  EXPECT_EQ(read_as("tokens=5\n# a comment\n\ntokens=7 latency=3.5\ntokens=5 count=4\n"), "tokens5 x5;tokens7 x1;");
  EXPECT_EQ(read_as("layer,tokens,count\r\n3,5,10\r\n4,5,1\r\n4,6,0"), "tokens5 x11;");
  EXPECT_EQ(read_as("b tokens\n2 5\n2 5\n", {{"b", 1, 4}, {"tokens", 1, 9}}), "b2 tokens5 x2;");
}

TEST_F(ShapesFile, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(read_as("tokens=5\ntoken=7\n"), "no value for symbol `tokens` at shapes:2");
  EXPECT_EQ(read_as("tokens=101\n"), "tokens=101 beyond the graph's 1..100 at shapes:1");
  EXPECT_EQ(read_as("tokens,count\n5,many\n"), "`many`, which is no number at shapes:2");
  EXPECT_EQ(read_as("tokens,count\n5\n"), "1 values for 2 columns at shapes:2");
  EXPECT_EQ(read_as("tokens=5 count=-1\n"), "a count of -1 at shapes:1");
  EXPECT_EQ(read_as("# nothing\n"), "no shape at shapes:1");
}

TEST_F(ShapesFile, TuneReadsItBeforeItMakesADatabase) {
  const Ended e = run({"tune", small_graph(), "--db", file("t.db"), "--shapes-from", write("log", "n=5\nn=65\n")});
  EXPECT_EQ(e.exit, 1);
  EXPECT_NE(e.err.find("log:2"), std::string::npos) << e.err;
  EXPECT_FALSE(fs::exists(file("t.db")));
  const Ended both = run({"tune", "--wanted", "--db", file("t.db"), "--shapes-from", file("log")});
  EXPECT_EQ(both.exit, 1);
  EXPECT_NE(both.err.find("--shapes-from"), std::string::npos) << both.err;
}

}  // namespace
}  // namespace loopwright::cli
