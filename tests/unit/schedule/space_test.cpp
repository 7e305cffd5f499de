#include <gtest/gtest.h>

#include <set>

#include "loopwright/schedule.h"

namespace loopwright {
namespace {

TEST(Space, default_takes_the_first_of_every_domain) {
  Space space;
  EXPECT_EQ(space.pick("tile", {64, 32, 128}), 64);
  EXPECT_FALSE(space.pick_flag("packed"));
  EXPECT_TRUE(space.pick_flag("parallel", true));
  EXPECT_EQ(print_picks(space.picks()), "tile=64 packed=0 parallel=1");
}

TEST(Space, chosen_values_outside_their_domain_fall_back) {
  Space space(Picks{{"tile", 32}, {"rows", 7}});
  EXPECT_EQ(space.pick("tile", {64, 32, 128}), 32);
  EXPECT_EQ(space.pick("rows", {4, 8}), 4);
  EXPECT_EQ(space.pick("depth", {1, 2}), 1);
}

TEST(Space, random_keeps_what_it_is_told_and_repeats_by_seed) {
  const auto draw = [](std::uint64_t seed) {
    Space space(seed, Picks{{"kept", 3}});
    std::vector<std::int64_t> out{space.pick("kept", {1, 2, 3})};
    for (int i = 0; i < 8; ++i) out.push_back(space.pick("p" + std::to_string(i), {1, 2, 3, 4, 5}));
    return out;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
  EXPECT_EQ(draw(9).front(), 3);
}

TEST(Space, random_reaches_every_value) {
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    seen.insert(Space(seed, {}).pick("tile", {1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Space, the_same_pick_has_one_answer) {
  Space space(5, {});
  const std::int64_t first = space.pick("tile", {1, 2, 3, 4});
  EXPECT_EQ(space.pick("tile", {1, 2, 3, 4}), first);
  EXPECT_EQ(space.choices().size(), 1u);
  EXPECT_THROW(space.pick("tile", {1, 2}), Bug);
  EXPECT_THROW(space.pick("empty", {}), Bug);
}

TEST(Picks, text_reads_back) {
  const Picks picks{{"tile_m", 64}, {"shift", -3}};
  const auto again = parse_picks(print_picks(picks));
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(*again, picks);
  EXPECT_TRUE(parse_picks("")->empty());
}

TEST(Picks, malformed_text_is_an_error) {
  EXPECT_EQ(parse_picks("tile").error().code, ErrorCode::syntax);
  EXPECT_EQ(parse_picks("tile=x").error().code, ErrorCode::syntax);
  EXPECT_EQ(parse_picks("tile=99999999999999999999").error().code, ErrorCode::syntax);
  EXPECT_EQ(parse_picks("a=1 a=2").error().code, ErrorCode::duplicate_name);
}

}  // namespace
}  // namespace loopwright
