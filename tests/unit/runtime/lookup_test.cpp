// Runtime over real database files: layers, matches, provenance, policies on a miss, and files in every bad state.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "db/exchange.h"
#include "tests/unit/runtime/writer_databases.h"

namespace loopwright {
namespace {

using namespace runtime::testing;
namespace fs = std::filesystem;

class RuntimeLookup : public WriterDatabases {};

constexpr std::int64_t kNoVariant = -static_cast<std::int64_t>(ErrorCode::no_variant);

TEST_F(RuntimeLookup, ServesTheTunedRangeAndTheDefaultElsewhere) {
  const Guard small = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &small);
    add_row(r, 9, nullptr);
  });
  const Runtime runtime = take(open({"user.db"}));
  ASSERT_EQ(runtime.notes().size(), 1U);
  EXPECT_NE(runtime.notes()[0].find("opened"), std::string::npos) << runtime.notes()[0];
  const Plan plan = take(runtime.plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 1);
  EXPECT_EQ(run_at(plan, 11), 9);
  EXPECT_EQ(run_at(plan, 0), 9);
  const std::int64_t n = 5;
  const auto choice = take(plan.choose({&n, 1}));
  EXPECT_EQ(choice[0].match, Match::exact);
  EXPECT_DOUBLE_EQ(choice[0].loss_worst, 0.05);
  EXPECT_EQ(choice[0].origin, Origin::tuned);
  EXPECT_GT(choice[0].median_ns, 0);
  const std::int64_t outside = 11;
  const auto general = take(plan.choose({&outside, 1}));
  EXPECT_EQ(general[0].origin, Origin::stored);
  EXPECT_EQ(general[0].median_ns, 0);
  const std::string text = take(runtime.explain("writer", {&n, 1}));
  EXPECT_NE(text.find("> exact"), std::string::npos) << text;
  EXPECT_NE(text.find("user.db"), std::string::npos) << text;
  EXPECT_TRUE(runtime.plan(take(runtime.plan("writer")).spec().name).ok());
  EXPECT_TRUE(runtime.plan(sha256_hex("graph writer\n")).ok()) << "by digest";
}

TEST_F(RuntimeLookup, StrictServesTunedRangesOnly) {
  const Guard small = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &small);
    add_row(r, 9, nullptr);
  });
  const Plan plan = take(take(open({"user.db"}, OnMiss::strict)).plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 1);
  EXPECT_EQ(run_at(plan, 11), kNoVariant);
}

TEST_F(RuntimeLookup, StrictRowsServeWhereTf32IsAllowedAndNeverTheOtherWay) {
  const Guard low = bounds(1, 10), high = bounds(11, 20), far = bounds(21, 30);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_loose_plan(r);
    take(r.add_workload({{}, kLooseWorkload, "writer", "tf32"}));
    add_row(r, 1, &low);
    add_row(r, 2, &high);
    add_row(r, 9, nullptr);
    add_row(r, 4, &low, true, kLooseWorkload);
    add_row(r, 5, &far, true, kLooseWorkload);
  });
  const Runtime runtime = take(open({"user.db"}));
  const Plan loose = take(runtime.plan("loose"));
  EXPECT_EQ(run_at(loose, 5), 4) << "its own comes first";
  EXPECT_EQ(run_at(loose, 15), 2) << "a strict winner where it has none";
  EXPECT_EQ(run_at(loose, 25), 5);
  EXPECT_EQ(run_at(loose, 40), 9) << "and the strict default";
  const std::int64_t n = 15;
  EXPECT_NE(take(runtime.explain("loose", {&n, 1})).find("in strict accuracy: "), std::string::npos);
  const Plan strict = take(runtime.plan("writer"));
  EXPECT_EQ(run_at(strict, 5), 1);
  EXPECT_EQ(run_at(strict, 25), 9) << "never what was tuned for tf32";
  const Plan tuned_alone = take(take(open({"user.db"}, OnMiss::strict)).plan("loose"));
  EXPECT_EQ(run_at(tuned_alone, 15), 2);
  EXPECT_EQ(run_at(tuned_alone, 40), kNoVariant);
}

TEST_F(RuntimeLookup, LayersAreMergedRowByRow) {
  const Guard low = bounds(1, 10), high = bounds(11, 20);
  with("user.db", [&](db::Recorder& r) { add_row(r, 1, &low); });
  with("shipped.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 2, &low);
    add_row(r, 3, &high);
    add_row(r, 9, nullptr);
  });
  const Plan plan = take(take(open({"user.db", "shipped.db"})).plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 1) << "the user's row of the same range comes first";
  EXPECT_EQ(run_at(plan, 15), 3) << "the shipped row fills what the user's file lacks";
  EXPECT_EQ(run_at(plan, 25), 9);
  EXPECT_EQ(run_at(take(take(open({"shipped.db", "user.db"})).plan("writer")), 5), 2);
}

TEST_F(RuntimeLookup, ABetterMatchComesBeforeAMoreImportantFile) {
  const Guard low = bounds(1, 10);
  const db::DeviceRow mine = device_;
  device_.model = "another model of the same kind";
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
  });
  const Plan soft = take(take(open({"user.db"})).plan("writer"));
  const std::int64_t n = 5;
  EXPECT_EQ(take(soft.choose({&n, 1}))[0].match, Match::soft_mismatch);
  EXPECT_EQ(run_at(soft, 5), 1);
  device_ = mine;
  with("shipped.db", [&](db::Recorder& r) { add_row(r, 2, &low); });
  EXPECT_EQ(run_at(take(take(open({"user.db", "shipped.db"})).plan("writer")), 5), 2);
}

TEST_F(RuntimeLookup, ThisDeviceGetsItsOwnRowsOfAFileOfSeveral) {
  const Guard low = bounds(1, 10), high = bounds(11, 20), far = bounds(21, 30);
  const db::DeviceRow mine = device_;
  with("site.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 9, nullptr);
    add_row(r, 2, &low);
  });
  for (const std::int64_t more : {64, 7}) {
    device_.cores = mine.cores + more;
    with("site.db", [&](db::Recorder& r) {
      add_row(r, static_cast<std::uint8_t>(more), &low);
      add_row(r, static_cast<std::uint8_t>(more + 1), &high);
    });
  }
  // A more important file from a machine that is less like this one.
  device_.cores = mine.cores + 64;
  with("user.db", [&](db::Recorder& r) { add_row(r, 100, &high), add_row(r, 101, &far); });
  const Plan plan = take(take(open({"user.db", "site.db"})).plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 2) << "its own";
  EXPECT_EQ(run_at(plan, 15), 8) << "that of the device that is most like it, whatever the file";
  EXPECT_EQ(run_at(plan, 25), 101) << "any before the default";
  EXPECT_EQ(run_at(plan, 35), 9) << "the default";
}

TEST_F(RuntimeLookup, StaleRowsServeAfterFreshOnesOfAnyFile) {
  const Guard low = bounds(1, 10), wide = bounds(1, 20);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
    add_row(r, 9, nullptr);
    for (const auto& e : take(r.read().list_best({}))) ASSERT_TRUE(r.set_best_state(e.candidate.digest, {}, db::BestState::stale).ok());
  });
  const Plan alone = take(take(open({"user.db"})).plan("writer"));
  EXPECT_EQ(run_at(alone, 5), 1) << "before the default";
  with("shipped.db", [&](db::Recorder& r) { add_row(r, 2, &wide); });
  EXPECT_EQ(run_at(take(take(open({"user.db", "shipped.db"})).plan("writer")), 5), 2);
}

TEST_F(RuntimeLookup, WithoutADefaultATunedVariantStandsIn) {
  const Guard low = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
  });
  const Plan plan = take(take(open({"user.db"})).plan("writer"));
  EXPECT_EQ(run_at(plan, 500), 1);
  const std::int64_t n = 500;
  EXPECT_FALSE(take(plan.choose({&n, 1}))[0].is_tuned);
  EXPECT_EQ(take(plan.choose({&n, 1}))[0].origin, Origin::stored);
  EXPECT_EQ(take(plan.choose({&n, 1}))[0].median_ns, 0) << "measured at other sizes";
}

TEST_F(RuntimeLookup, ForeignMachineCodeIsNeverLoaded) {
  const Guard low = bounds(1, 10);
  with("theirs.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
    add_row(r, 9, nullptr);
  });
  db::MergeOptions options;
  options.with_artifacts = true;
  take(db::merge_file(path("mine.db"), path("theirs.db"), options));
  const auto plan = take(open({"mine.db"})).plan("writer");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::no_variant);
  EXPECT_NE(plan.error().found.find("kernel 0 (writer"), std::string::npos) << plan.error().message();
}

TEST_F(RuntimeLookup, MissingMachineCodeIsNamed) {
  const Guard low = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low, false);
  });
  const auto plan = take(open({"user.db"})).plan("writer");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::no_variant);
  EXPECT_NE(plan.error().where.find("no machine code"), std::string::npos) << plan.error().message();
}

Result<std::vector<std::shared_ptr<const Artifact>>> compile_for_test(std::string_view text, const Target& target) {
  if (text != kWorkload || target.text().empty())
    return Error{ErrorCode::bug, "compile", "other arguments", "", ""};
  return std::vector<std::shared_ptr<const Artifact>>{writer(77)};
}

TEST_F(RuntimeLookup, JitCompilesWhatIsMissingOncePerPlan) {
  const Guard low = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
  });
  runtime::set_jit_hook(compile_for_test);
  EXPECT_EQ(run_at(take(take(open({"user.db"}, OnMiss::jit)).plan("writer")), 5), 1);
  with("empty.db", [&](db::Recorder& r) { add_plan(r); });
  const Plan plan = take(take(open({"empty.db"}, OnMiss::jit)).plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 77);
  EXPECT_FALSE(take(open({"empty.db"}, OnMiss::fallback)).plan("writer").ok());
  runtime::set_jit_hook(nullptr);
  const auto without = take(open({"empty.db"}, OnMiss::jit)).plan("writer");
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().where.find("enable_jit"), std::string::npos) << without.error().message();
}

/// Code that gains from aligned addresses, and other code for all of them.
Result<std::vector<std::shared_ptr<const Artifact>>> compile_aligned(std::string_view, const Target&) {
  auto aligned = std::make_shared<Artifact>(*writer(78));
  aligned->guard.alignment_bytes = 16;
  return std::vector<std::shared_ptr<const Artifact>>{aligned, writer(79)};
}

TEST_F(RuntimeLookup, JitCompilesForAlignedAddressesAndForAllOthers) {
  with("empty.db", [&](db::Recorder& r) { add_plan(r); });
  runtime::set_jit_hook(compile_aligned);
  const Plan plan = take(take(open({"empty.db"}, OnMiss::jit)).plan("writer"));
  runtime::set_jit_hook(nullptr);
  alignas(16) std::int64_t out[2] = {};
  const std::int64_t n = 5;
  for (std::int64_t* at : {out, out + 1}) {
    void* pointer = at;
    EXPECT_EQ(plan.launch(&pointer, &n), ErrorCode::ok);
  }
  EXPECT_EQ(out[0], 78) << "aligned to 16 bytes";
  EXPECT_EQ(out[1], 79);
}

TEST_F(RuntimeLookup, MissesAreWrittenAsWanted) {
  const Guard low = bounds(1, 10);
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &low);
    add_row(r, 9, nullptr);
  });
  {
    const Runtime runtime = take(open({"user.db"}));
    const Plan plan = take(runtime.plan("writer"));
    for (const std::int64_t n : {5, 50, 50, 60}) run_at(plan, n);
    take(runtime.flush_wanted());
    run_at(plan, 50);
  }  // the last one is written when the runtime goes
  const auto wanted = take(take(db::Query::open(path("user.db"))).list_wanted());
  ASSERT_EQ(wanted.size(), 2U);
  EXPECT_EQ(wanted[0].values, (Bindings{{"s0", 50}}));
  EXPECT_EQ(wanted[0].count, 3);
  EXPECT_EQ(wanted[1].values, (Bindings{{"s0", 60}}));
}

TEST_F(RuntimeLookup, AReloadReadsTheFileThatTookAnothersPlace) {
  const auto write = [&](const std::string& file, int variant) {
    with(file, [&](db::Recorder& r) {
      add_plan(r);
      add_row(r, variant, nullptr);
    });
  };
  write("user.db", 1);
  write("next.db", 2);
  const Runtime runtime = take(open({"user.db"}));
  const Plan before = take(runtime.plan("writer"));
  fs::rename(path("user.db"), path("old.db"));
  EXPECT_FALSE(runtime.reload().ok()) << "no file is there now";
  EXPECT_EQ(run_at(take(runtime.plan("writer")), 5), 1) << "what was open still serves";
  fs::rename(path("next.db"), path("user.db"));
  EXPECT_EQ(run_at(take(runtime.plan("writer")), 5), 1) << "nobody asked";
  take(runtime.reload());
  EXPECT_EQ(run_at(take(runtime.plan("writer")), 5), 2);
  EXPECT_EQ(run_at(before, 5), 1) << "a plan keeps what it was made of";
}

TEST_F(RuntimeLookup, AReloadUnderLoadNeverFailsACall) {
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, nullptr);
  });
  const Runtime runtime = take(open({"user.db"}));
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      do {
        const auto plan = runtime.plan("writer");
        wrong += !plan.ok() || run_at(*plan, 5) != 1;
        ++calls;
      } while (!done);
    });
  for (int i = 0; i < 20; ++i) take(runtime.reload());
  done = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(calls, 2);
}

TEST_F(RuntimeLookup, MissesWaitWhenNothingCanBeWritten) {
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 9, nullptr);
  });
  const Runtime runtime = take(open({"user.db"}));
  const Plan plan = take(runtime.plan("writer"));
  run_at(plan, 50);
  const fs::path hidden = folder_ / "hidden.db";
  fs::rename(path("user.db"), hidden);
  EXPECT_FALSE(runtime.flush_wanted().ok());
  fs::rename(hidden, path("user.db"));
  take(runtime.flush_wanted());
  EXPECT_EQ(take(take(db::Query::open(path("user.db"))).list_wanted()).size(), 1U);
}

TEST_F(RuntimeLookup, BadFilesAreNotedAndTheOthersServe) {
  with("good.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 9, nullptr);
  });
  std::ofstream(path("text.db"))
      << "this is no database, but it is long enough to be taken for one at first sight ..............";
  std::ofstream(path("empty.db"));
  fs::copy_file(path("good.db"), path("truncated.db"));
  fs::resize_file(path("truncated.db"), 5000);
  fs::create_directory(path("folder.db"));
  const Runtime runtime =
      take(open({"missing.db", "text.db", "empty.db", "truncated.db", "folder.db", "good.db"}));
  ASSERT_EQ(runtime.notes().size(), 6U);
  EXPECT_NE(runtime.notes()[0].find("missing.db"), std::string::npos);
  EXPECT_NE(runtime.notes()[0].find("not used"), std::string::npos) << runtime.notes()[0];
  EXPECT_NE(runtime.notes()[1].find("not used"), std::string::npos) << runtime.notes()[1];
  EXPECT_NE(runtime.notes()[4].find("not used"), std::string::npos) << runtime.notes()[4];
  EXPECT_EQ(run_at(take(runtime.plan("writer")), 5), 9);
}

TEST_F(RuntimeLookup, ADamagedByteNeverServesWrongCode) {
  with("good.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 9, nullptr);
  });
  std::ifstream in(path("good.db"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  int served = 0;
  for (std::size_t at = 100; at < bytes.size(); at += 2003) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    std::ofstream(path("damaged.db"), std::ios::binary | std::ios::trunc) << damaged;
    const auto runtime = open({"damaged.db"});
    ASSERT_TRUE(runtime.ok());
    const auto plan = runtime->plan("writer");
    if (!plan.ok()) continue;
    EXPECT_EQ(run_at(*plan, 5), 9) << "byte " << at;
    ++served;
  }
  EXPECT_GT(served, 0);
}

TEST_F(RuntimeLookup, ARangeOverASymbolThatIsNotTheWorkloadsLeavesTheOthersServing) {
  Guard strange;
  strange.symbols.push_back({.name = "zz", .lo = 1, .hi = 9});
  with("user.db", [&](db::Recorder& r) {
    add_plan(r);
    add_row(r, 1, &strange);
    add_row(r, 9, nullptr);
  });
  const Runtime runtime = take(open({"user.db"}));
  const Plan plan = take(runtime.plan("writer"));
  EXPECT_EQ(run_at(plan, 5), 9);
  const std::string text = take(plan.explain(std::vector<std::int64_t>{5}));
  EXPECT_NE(text.find("`zz`"), std::string::npos) << text;
}

TEST_F(RuntimeLookup, AnUnknownPlanListsWhatThereIs) {
  with("user.db", [&](db::Recorder& r) { add_plan(r); });
  const auto plan = take(open({"user.db"})).plan("softmax");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::not_found);
  EXPECT_NE(plan.error().works.find("writer"), std::string::npos) << plan.error().message();
  EXPECT_EQ(take(open({})).plan("softmax").error().code, ErrorCode::not_found);
}

TEST_F(RuntimeLookup, NegativeWorkersAreRefused) {
  RuntimeOptions options;
  options.workers = -1;
  EXPECT_EQ(Runtime::open(options).error().code, ErrorCode::wrong_arguments);
  options.workers = 3;
  EXPECT_EQ(take(Runtime::open(options)).target().workers, 3);
}

}  // namespace
}  // namespace loopwright
