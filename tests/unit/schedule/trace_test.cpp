#include "src/schedule/trace.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"

namespace loopwright::schedule {
namespace {

constexpr const char* kCopy = R"(kernel copy(x: f32[n, 8] in, y: f32[n, 8] out)
  symbol n in 0..100
  level naive
  for i in 0..n
    for j in 0..8
      y[i, j] = x[i, j]
)";

ir::Kernel copy() {
  auto k = ir::parse_kernel(kCopy);
  LW_BUG_IF(!k.ok(), k.error().message());
  return *k;
}

/// One of every step, with every optional field both given and left out.
std::vector<TracedStep> every_step() {
  return {{Split{"i", {8, 4}, Tail::guard}, {"i_o", "i_1", "i_i"}},
          {Split{"j", {2}, Tail::exact}, {}},
          {Fuse{"i", "j"}, {"i_f"}},
          {Reorder{{"a", "b", "c"}}, {}},
          {Parallel{"i"}, {}},
          {Unroll{"i"}, {}},
          {Vectorize{"j"}, {}},
          {InlineBuffer{"t"}, {}},
          {ComputeAt{"t", "i", Place::shared}, {}},
          {FuseEpilogue{"y", "i", Place::registers}, {"y_0"}},
          {Hold{"y", "i", Place::registers}, {"y_tile_0"}},
          {Stage{"x", "", Place::global, {}, {}}, {}},
          {Stage{"x", "i", Place::shared, {1, 0}, {1, 16}}, {"x_packed_0"}},
          {ReduceAcross{"r", 8, true, Place::registers}, {"r_w", "r_i", "r_c"}},
          {ReduceAcross{"r", 4, false, Place::global}, {}},
          {Stage{"x", "i", Place::shared, {}, {}, true}, {"x_staged_0"}},
          {Bind{"i", Axis::grid_x}, {}},
          {Separate{"k"}, {"x_parts_0"}},
          {Tensorize{{"i", "j", "k"}}, {}},
          {Ring{"k", 4}, {}},
          {Bulk{"y_tile_0"}, {}},
          {LoadAhead{"k"}, {}},
          {Persist{"i", 132, 2}, {"i_block", "i_round", "i_turn"}},
          {Stream{"y"}, {}},
          {AssumeMultiple{"n", 8}, {}},
          {AssumeAlignment{64}, {}}};
}

TEST(Trace, every_step_reads_back) {
  const std::string text = print_trace(every_step());
  const auto again = parse_trace(text);
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(print_trace(*again), text);
  EXPECT_NE(text.find("stage x at * in global\n"), std::string::npos) << text;
  EXPECT_NE(text.find("stage x at i in shared order 1, 0 tiles 1, 16 -> x_packed_0\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("split i by 8, 4 tail guard -> i_o i_1 i_i\n"), std::string::npos) << text;
}

TEST(Trace, replay_gives_the_same_kernel) {
  const ir::Kernel naive = copy();
  Schedule s(naive, Target{});
  const auto i = s.split({"i"}, {4});
  s.vectorize({"j"});
  s.parallel(i[0]);
  ASSERT_TRUE(s.ok()) << s.error().message();
  const auto again = replay(naive, s.trace());
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(ir::print(*again), ir::print(s.kernel()));
}

TEST(Trace, older_version_is_told_apart_from_nonsense) {
  EXPECT_EQ(parse_trace("trace 0\nsplit i by 4 tail guard\n").error().code, ErrorCode::trace_version);
  EXPECT_EQ(parse_trace("trace 2\n").error().code, ErrorCode::trace_version);
  EXPECT_EQ(parse_trace("split i by 4 tail guard\n").error().code, ErrorCode::trace_version);
  EXPECT_EQ(parse_trace("").error().code, ErrorCode::trace_version);
  EXPECT_EQ(parse_trace("trace 1\nsplat i\n").error().code, ErrorCode::bad_trace);
  EXPECT_TRUE(parse_trace("trace 1\n")->empty());
}

TEST(Trace, malformed_lines_are_named) {
  for (const char* line :
       {"split", "split i", "split i by", "split i by 4", "split i by 4 tail", "split i by 4 tail soft",
        "split i by 4, tail guard", "reorder", "reorder i,", "compute_at t at i", "unroll i j",
        "stage x at i in shared order", "stage x at i in shared order 99999999999",
        "split i by 99999999999999999999 tail guard", "assume_multiple n", "unroll 4", "unroll i ->"}) {
    const auto steps = parse_trace("trace 1\nunroll j\n" + std::string(line) + "\n");
    if (std::string(line) == "unroll i ->") {
      EXPECT_TRUE(steps.ok());
      continue;
    }
    ASSERT_FALSE(steps.ok()) << line;
    EXPECT_EQ(steps.error().code, ErrorCode::bad_trace) << line;
    const std::string message = steps.error().message();
    EXPECT_TRUE(message.find("line 3") != std::string::npos || message.find("trace:3:") != std::string::npos)
        << message;
  }
}

TEST(Trace, a_step_that_no_longer_applies_names_its_line_and_reason) {
  const auto k = replay(copy(), "trace 1\nsplit j by 4 tail exact\nunroll i\n");
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(k.error().code, ErrorCode::bad_trace);
  EXPECT_NE(k.error().found.find("line 3: illegal_unroll: unroll i"), std::string::npos)
      << k.error().message();
}

TEST(Trace, other_names_than_recorded_are_refused) {
  const auto k = replay(copy(), "trace 1\nsplit j by 4 tail exact -> j_o j_inner\n");
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(k.error().code, ErrorCode::bad_trace);
  EXPECT_NE(k.error().found.find("makes j_o j_i, not j_o j_inner"), std::string::npos) << k.error().message();
}

}  // namespace
}  // namespace loopwright::schedule
