// find_variants and explain: which rows serve which device, in which order, and why others do not.
#include <gtest/gtest.h>

#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

class MatchTest : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("db.lwdb");
  Sample sample = make_sample_file(path);
  DeviceMatch match = sample_match();

  std::vector<Variant> find(const DeviceMatch& asked) {
    auto query = Query::open(path);
    auto list = query->find_variants(sample.workload, asked);
    EXPECT_TRUE(list.ok());
    EXPECT_EQ(list->damaged_rows, 0);
    return list->variants;
  }
};

TEST_F(MatchTest, same_device_and_toolchain_match_exactly_narrow_ranges_first_defaults_last) {
  auto variants = find(match);
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].quality, Match::exact);
  EXPECT_EQ(variants[0].mismatch, "");
  EXPECT_EQ(variants[0].candidate.digest, sample.candidates[1]);
  EXPECT_EQ(variants[0].artifact, sample.artifacts[1]);
  EXPECT_EQ(variants[1].candidate.digest, sample.candidates[2]);
  EXPECT_EQ(variants[2].quality, Match::untuned);
  EXPECT_EQ(variants[2].candidate.digest, sample.candidates[0]);
  EXPECT_TRUE(variants[2].guard.symbols.empty());
}

TEST_F(MatchTest, soft_differences_are_named_and_still_serve) {
  match.device.model = "EPYC 9";
  match.toolchain.compiler = "LLVM 19.1.8";
  auto variants = find(match);
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].quality, Match::soft_mismatch);
  EXPECT_EQ(variants[0].mismatch,
            "model `EPYC 9` here, `EPYC` there; compiler `LLVM 19.1.8` here, `LLVM 19.1.7` there");
}

TEST_F(MatchTest, other_core_counts_and_generators_are_nearest_and_can_be_left_out) {
  match.device.cores = 16;
  EXPECT_EQ(find(match)[0].quality, Match::nearest);
  match = sample_match();
  match.toolchain.generator = "2";
  EXPECT_EQ(find(match)[0].quality, Match::nearest);
  match.worst = Match::soft_mismatch;
  EXPECT_TRUE(find(match).empty());
}

TEST_F(MatchTest, machine_code_for_features_that_are_not_here_is_not_offered) {
  match.device.features = "avx";
  match.device.target = "cpu:znver3:+avx";
  auto variants = find(match);
  ASSERT_FALSE(variants.empty());
  for (const Variant& variant : variants) EXPECT_EQ(variant.artifact, "");
  match.device.features = "avx avx2 avx512f fma";
  match.device.target = "cpu:znver3:+avx,+avx2,+avx512f,+fma";
  EXPECT_EQ(find(match)[0].artifact, sample.artifacts[1]);
  match.device.arch = "znver4";  // an arch implies more than its list says
  EXPECT_EQ(find(match)[0].artifact, "");
}

TEST_F(MatchTest, another_kind_of_device_gets_nothing) {
  match.device.kind = "cuda";
  match.device.arch = "sm_90a";
  match.device.target = "cuda:sm_90a:";
  match.worst = Match::nearest;
  EXPECT_TRUE(find(match).empty());
}

TEST_F(MatchTest, a_second_device_in_the_file_comes_behind_the_own_one) {
  {
    auto recorder = Recorder::open(path);
    DeviceRow other = sample_device();
    other.cores = 64;
    auto device = recorder->add_device(other);
    for (std::size_t i = 0; i < 2; ++i) {
      BestRow best = recorder->read().list_best({.device = sample.device})->at(i).best;
      best.device = *device;
      best.candidate = sample.candidates[0];
      ASSERT_TRUE(recorder->put_best(best).ok());
    }
  }
  auto variants = find(match);
  ASSERT_EQ(variants.size(), 5u);
  EXPECT_EQ(variants[0].candidate.digest, sample.candidates[1]);
  EXPECT_EQ(variants[2].quality, Match::nearest);
  match.device.cores = 60;
  EXPECT_EQ(find(match)[0].candidate.digest, sample.candidates[0]);  // 60 is nearer to 64 than to 8
}

TEST_F(MatchTest, each_of_two_devices_in_a_file_is_served_its_own_rows) {
  DeviceRow other = sample_device();
  other.cores = 64;
  {
    auto recorder = Recorder::open(path);
    auto device = recorder->add_device(other);
    for (std::size_t i = 0; i < 2; ++i) {
      BestRow best = recorder->read().list_best({.device = sample.device})->at(i).best;
      best.device = *device;
      best.candidate = sample.candidates[0];
      ASSERT_TRUE(recorder->put_best(best).ok());
    }
  }
  for (const bool is_other : {false, true}) {
    match.device = is_other ? other : sample_device();
    auto variants = find(match);
    ASSERT_EQ(variants.size(), 5u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(variants[i].quality, Match::exact);
      EXPECT_EQ(variants[i].candidate.digest, sample.candidates[is_other ? 0 : 1 + i]);
      EXPECT_EQ(variants[2 + i].quality, Match::nearest);
    }
    EXPECT_EQ(variants[4].quality, Match::untuned);
  }
}

TEST_F(MatchTest, stale_rows_serve_after_fresh_ones_and_before_the_default) {
  {
    auto recorder = Recorder::open(path);
    ASSERT_TRUE(recorder->set_best_state(sample.candidates[1], {}, BestState::stale).ok());
  }
  auto variants = find(match);
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].candidate.digest, sample.candidates[2]) << "its range is wider, but it is fresh";
  EXPECT_EQ(variants[1].candidate.digest, sample.candidates[1]);
  EXPECT_NE(variants[1].mismatch.find("stale"), std::string::npos);
  EXPECT_EQ(variants[2].quality, Match::untuned);
  {
    auto recorder = Recorder::open(path);
    ASSERT_TRUE(recorder->set_best_state(sample.candidates[1], {}, BestState::demoted).ok());
  }
  EXPECT_EQ(find(match).size(), 2u) << "what lost to the default does not serve";
}

TEST_F(MatchTest, unverified_and_blocked_rows_do_not_serve_and_explain_says_why) {
  {
    auto recorder = Recorder::open(path);
    BestRow best = recorder->read().list_best({})->at(0).best;
    best.verified = false;
    ASSERT_TRUE(recorder->put_best(best).ok());
    ASSERT_TRUE(recorder->add_block({{}, sample.candidates[2], {}, {}, "wrong on odd strides", 0}).ok());
  }
  auto variants = find(match);
  ASSERT_EQ(variants.size(), 1u);
  EXPECT_EQ(variants[0].quality, Match::untuned);
  auto query = Query::open(path);
  auto explanation = query->explain(sample.workload, match, {{"s0", 17}}, 64);
  ASSERT_TRUE(explanation.ok());
  ASSERT_EQ(explanation->considered.size(), 3u);
  EXPECT_EQ(explanation->considered[0].reason, "not built and verified here yet: run `loopwright db rebuild`");
  EXPECT_EQ(explanation->considered[1].reason, "blocked: wrong on odd strides");
  EXPECT_TRUE(explanation->considered[2].served);
}

TEST_F(MatchTest, explain_names_the_server_the_rejected_and_the_alternatives) {
  auto query = Query::open(path);
  auto e = query->explain(sample.workload, match, {{"s0", 4000}}, 64);
  ASSERT_TRUE(e.ok()) << e.error().message();
  EXPECT_FALSE(e->considered[0].served);
  EXPECT_NE(e->considered[0].reason.find("does not hold the shape"), std::string::npos);
  EXPECT_TRUE(e->considered[1].served);
  EXPECT_EQ(e->considered[2].reason, "another variant comes before it");
  ASSERT_EQ(e->alternatives.size(), 3u);
  EXPECT_EQ(e->alternatives[0].candidate.digest, sample.candidates[2]);
  EXPECT_EQ(e->alternatives[0].probe, (Bindings{{"s0", 4096}}));
  EXPECT_EQ(e->alternatives[0].ratio, 1);
  EXPECT_GT(e->alternatives[2].ratio, 1.2);
  EXPECT_EQ(e->trials_by_outcome[static_cast<std::size_t>(Outcome::timeout)], 1);
  EXPECT_NE(e->summary.find("match exact"), std::string::npos) << e->summary;
  auto misaligned = query->explain(sample.workload, match, {{"s0", 4000}}, 8);
  EXPECT_NE(misaligned->considered[1].reason.find("aligned to 16"), std::string::npos);
  EXPECT_TRUE(misaligned->considered[2].served);
  EXPECT_EQ(query->explain(std::string(64, 'c'), match, {}, 1).error().code, ErrorCode::not_found);
}

TEST_F(MatchTest, numbers_of_another_policy_do_not_mix) {
  Digest policy;
  {
    auto recorder = Recorder::open(path);
    policy = *recorder->add_policy({{}, "warm", "l2 warm\n"});
    BestRow best = recorder->read().list_best({})->at(0).best;
    best.policy = policy;
    best.candidate = sample.candidates[2];
    best.updated_ns += 1;
    ASSERT_TRUE(recorder->put_best(best).ok());
  }
  EXPECT_EQ(find(match).size(), 3u);  // of one range only the newer
  EXPECT_EQ(find(match)[0].candidate.digest, sample.candidates[2]);
  match.policy = sample.policy;
  EXPECT_EQ(find(match)[0].candidate.digest, sample.candidates[1]);
  match.policy = policy;
  EXPECT_EQ(find(match).size(), 2u);
}

}  // namespace
}  // namespace loopwright::db::test
