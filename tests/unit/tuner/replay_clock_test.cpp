#include "tuner/replay_clock.h"

#include <gtest/gtest.h>

#include "tuner/measure.h"

namespace loopwright::tuner {
namespace {

TEST(ReplayClock, AReplayIsWholeRoundsOverTheSetsAndLongEnough) {
  EXPECT_EQ(ReplayClock::count_calls(1000, 200e3, 1), 200);
  EXPECT_EQ(ReplayClock::count_calls(1000, 200e3, 256), 256);
  EXPECT_EQ(ReplayClock::count_calls(1000, 300e3, 256), 512);
  EXPECT_EQ(ReplayClock::count_calls(1e9, 200e3, 3), 3) << "a slow kernel once for each set";
  EXPECT_EQ(ReplayClock::count_calls(1, 20e3, 1), 100) << "an estimate below the clock's resolution is not believed";
  EXPECT_EQ(ReplayClock::count_calls(200, 1e9, 1), 1024) << "graphs stay short";
}

TEST(MeasureSettings, SetsTogetherExceedTheCachesUnlessTheyAreReused) {
  Target target = *Target::parse("cuda:sm_90a");
  target.l2_bytes = 50 << 20;
  const MeasureSettings rotated = complete_settings(gpu_settings("cuda:0", false), target);
  EXPECT_EQ(rotated.rotate_bytes, 3 * target.l2_bytes);
  EXPECT_EQ(count_sets(rotated, 10 << 20), 16);
  EXPECT_EQ(count_sets(rotated, 4096), rotated.max_sets);
  EXPECT_EQ(count_sets(rotated, 1ull << 40), 1);
  EXPECT_EQ(count_sets(complete_settings(gpu_settings("cuda:0", true), target), 4096), 1);
}

}  // namespace
}  // namespace loopwright::tuner
