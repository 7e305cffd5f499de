#include "src/runtime/misses.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace loopwright::runtime {
namespace {

TEST(MissTable, CountsBySizeAndForgetsWhatWasTaken) {
  MissTable table(2);
  const std::int64_t a[] = {1, 2}, b[] = {2, 1};
  table.add(a);
  table.add(b);
  table.add(a);
  auto entries = table.take();
  ASSERT_EQ(entries.size(), 2U);
  std::int64_t of_a = 0;
  for (const auto& entry : entries)
    if (entry.symbols == std::vector<std::int64_t>{1, 2}) of_a = entry.count;
  EXPECT_EQ(of_a, 2);
  EXPECT_TRUE(table.take().empty());
  table.put_back(entries);
  EXPECT_EQ(table.take().size(), 2U);
}

TEST(MissTable, WorksWithoutSymbols) {
  MissTable table(0);
  table.add(nullptr);
  table.add(nullptr);
  const auto entries = table.take();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].count, 2);
}

TEST(MissTable, CountsEverythingFromManyThreads) {
  MissTable table(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < 4000; ++i) {
        const std::int64_t value = i % 400;  // more sizes than the table holds
        table.add(&value);
      }
    });
  std::int64_t counted = 0;
  for (int round = 0; round < 10; ++round)
    for (const auto& entry : table.take()) counted += entry.count;
  for (std::thread& thread : threads) thread.join();
  for (const auto& entry : table.take()) {
    counted += entry.count;
    EXPECT_LT(entry.symbols[0], 400);
  }
  EXPECT_EQ(counted + table.dropped(), 16000);
  EXPECT_GT(table.dropped(), 0);
}

}  // namespace
}  // namespace loopwright::runtime
