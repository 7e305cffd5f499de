// The C interface at work; its misuse is in tests/links/runtime_only.c.
#include <gtest/gtest.h>

#include "loopwright/runtime_c.h"
#include "tests/unit/runtime/writer_databases.h"

namespace loopwright {
namespace {

using namespace runtime::testing;

class CApi : public WriterDatabases {
 protected:
  CApi() {
    const Guard low = bounds(1, 10);
    with("user.db", [&](db::Recorder& r) {
      db::PlanRow row;
      row.name = "writer";
      row.graph_text = "graph writer\n";
      PlanSpec spec = writer_spec();
      spec.symbols[0].lo = 1;  // it writes one element at every size
      spec.tensors[0].shape = {symbol(0)};
      row.plan_json = spec.text();
      take(r.add_plan(row));
      add_row(r, 1, &low);
      add_row(r, 9, nullptr);
    });
    const std::string file = path("user.db");
    const char* databases[] = {file.c_str()};
    const loopwright_options options = {sizeof options, databases, 1, LOOPWRIGHT_FALLBACK, 1};
    EXPECT_EQ(loopwright_open(&options, &runtime_), LOOPWRIGHT_OK) << loopwright_last_error();
    EXPECT_EQ(loopwright_make_plan(runtime_, "writer", &plan_), LOOPWRIGHT_OK) << loopwright_last_error();
  }
  ~CApi() override {
    loopwright_free_plan(plan_);
    loopwright_close(runtime_);
  }
  loopwright_runtime* runtime_ = nullptr;
  loopwright_plan* plan_ = nullptr;
};

TEST_F(CApi, RunsAPlanFromADatabase) {
  std::int64_t out[20] = {};
  const std::int64_t five = 5, twenty = 20;
  loopwright_tensor tensor = {out, &five, nullptr, 1, LOOPWRIGHT_I64};
  EXPECT_EQ(loopwright_run(plan_, &tensor, 1), LOOPWRIGHT_OK) << loopwright_last_error();
  EXPECT_EQ(out[0], 1);
  tensor.shape = &twenty;
  EXPECT_EQ(loopwright_run(plan_, &tensor, 1), LOOPWRIGHT_OK) << loopwright_last_error();
  EXPECT_EQ(out[0], 9);
  void* pointers[] = {out};
  EXPECT_EQ(loopwright_launch(plan_, pointers, &five), LOOPWRIGHT_OK);
  EXPECT_EQ(out[0], 1);
  out[0] = 0;
  EXPECT_EQ(loopwright_launch_graph(plan_, pointers, &five, nullptr), LOOPWRIGHT_OK);
  EXPECT_EQ(out[0], 1);
  EXPECT_NE(loopwright_launch_graph(nullptr, pointers, &five, nullptr), LOOPWRIGHT_OK);
  EXPECT_EQ(loopwright_flush_wanted(runtime_), LOOPWRIGHT_OK) << loopwright_last_error();
  EXPECT_EQ(loopwright_reload(runtime_), LOOPWRIGHT_OK) << loopwright_last_error();
  EXPECT_EQ(loopwright_launch(plan_, pointers, &five), LOOPWRIGHT_OK);
}

TEST_F(CApi, APlanOutlivesItsRuntime) {
  loopwright_close(runtime_);
  runtime_ = nullptr;
  std::int64_t out[5] = {};
  void* pointers[] = {out};
  const std::int64_t five = 5;
  EXPECT_EQ(loopwright_launch(plan_, pointers, &five), LOOPWRIGHT_OK);
  EXPECT_EQ(out[0], 1);
}

TEST_F(CApi, DescribesAPlan) {
  loopwright_tensor_info tensor;
  loopwright_symbol_info symbol;
  EXPECT_EQ(loopwright_tensor_count(plan_), 1);
  EXPECT_EQ(loopwright_symbol_count(plan_), 1);
  ASSERT_EQ(loopwright_describe_tensor(plan_, 0, &tensor), LOOPWRIGHT_OK);
  EXPECT_STREQ(tensor.name, "out");
  EXPECT_EQ(tensor.dtype, LOOPWRIGHT_I64);
  EXPECT_EQ(tensor.role, LOOPWRIGHT_OUTPUT);
  ASSERT_EQ(loopwright_describe_symbol(plan_, 0, &symbol), LOOPWRIGHT_OK);
  EXPECT_STREQ(symbol.name, "n");
  EXPECT_EQ(symbol.hi, 1000);
  EXPECT_STREQ(loopwright_error_name(loopwright_describe_tensor(plan_, 1, &tensor)), "wrong_arguments");
  EXPECT_STREQ(loopwright_error_name(loopwright_describe_symbol(plan_, -1, &symbol)), "wrong_arguments");
  char* text = nullptr;
  const std::int64_t five = 5;
  ASSERT_EQ(loopwright_explain(plan_, &five, 1, &text), LOOPWRIGHT_OK);
  EXPECT_NE(std::string(text).find("serves"), std::string::npos) << text;
  loopwright_free_text(text);
}

TEST_F(CApi, BadTensorsAreNumbersWithAMessage) {
  std::int64_t out[5] = {};
  const std::int64_t five = 5, too_many = 100000;
  loopwright_tensor tensor = {out, &five, nullptr, 1, LOOPWRIGHT_F32};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "wrong_arguments");
  EXPECT_NE(std::string(loopwright_last_error()).find("`out`"), std::string::npos) << loopwright_last_error();
  tensor = {out, &too_many, nullptr, 1, LOOPWRIGHT_I64};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "out_of_range");
  tensor = {reinterpret_cast<char*>(out) + 1, &five, nullptr, 1, LOOPWRIGHT_I64};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "misaligned");
  tensor = {out, &five, nullptr, 1, 99};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "wrong_arguments");
  tensor = {out, nullptr, nullptr, 1, LOOPWRIGHT_I64};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "wrong_arguments");
  tensor = {out, &five, nullptr, -1, LOOPWRIGHT_I64};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "wrong_arguments");
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, nullptr, 1)), "wrong_arguments");
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, -1)), "wrong_arguments");
}

TEST_F(CApi, CountsAndRanksThatCannotBeAreRefusedBeforeAnythingIsRead) {
  std::int64_t out[5] = {};
  const std::int64_t five = 5;
  const loopwright_tensor good = {out, &five, nullptr, 1, LOOPWRIGHT_I64};
  loopwright_tensor tensors[2] = {good, {out, nullptr, nullptr, 1, LOOPWRIGHT_I64}};
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, tensors, 2)), "wrong_arguments");
  EXPECT_NE(std::string(loopwright_last_error()).find("2 tensors\n  works: 1,"), std::string::npos) << loopwright_last_error();
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, tensors, INT32_MAX)), "wrong_arguments");
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, nullptr, 0)), "wrong_arguments");
  tensors[0].rank = INT32_MAX;
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, tensors, 1)), "wrong_arguments");
  tensors[0].rank = 0;
  EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, tensors, 1)), "wrong_arguments");
  EXPECT_NE(std::string(loopwright_last_error()).find("1 dimension"), std::string::npos) << loopwright_last_error();
}

TEST_F(CApi, SizesAndStridesThatOverflowAreNumbers) {
  std::int64_t out[5] = {};
  for (const std::int64_t wrong : {INT64_MIN, INT64_MIN + 1, std::int64_t{-1}, INT64_MAX}) {
    const std::int64_t five = 5;
    loopwright_tensor tensor = {out, &wrong, nullptr, 1, LOOPWRIGHT_I64};
    EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), wrong < 0 ? "wrong_arguments" : "out_of_range") << wrong;
    tensor = {out, &five, &wrong, 1, LOOPWRIGHT_I64};
    EXPECT_STREQ(loopwright_error_name(loopwright_run(plan_, &tensor, 1)), "wrong_arguments") << wrong;
    char* text = nullptr;
    EXPECT_NE(loopwright_explain(plan_, &wrong, 1, &text), LOOPWRIGHT_OK) << wrong;
    EXPECT_EQ(text, nullptr);
    void* pointers[] = {out};
    EXPECT_STREQ(loopwright_error_name(loopwright_launch(plan_, pointers, &wrong)), "out_of_range") << wrong;
  }
}

TEST_F(CApi, ANullPlanIsANumberForTheHotCallToo) {
  std::int64_t out[5] = {};
  void* pointers[] = {out};
  const std::int64_t five = 5;
  EXPECT_STREQ(loopwright_error_name(loopwright_launch(nullptr, pointers, &five)), "wrong_arguments");
  EXPECT_STREQ(loopwright_error_name(loopwright_launch_on(nullptr, pointers, &five, nullptr)), "wrong_arguments");
}

TEST_F(CApi, OptionsThatNobodyFilledInAreRefused) {
  const std::string file = path("user.db");
  const char* databases[] = {file.c_str()};
  loopwright_options options = {0, databases, 1, LOOPWRIGHT_FALLBACK, 1, nullptr};
  loopwright_runtime* opened = nullptr;
  EXPECT_STREQ(loopwright_error_name(loopwright_open(&options, &opened)), "wrong_arguments") << "its databases would be none";
  EXPECT_NE(std::string(loopwright_last_error()).find("size"), std::string::npos);
  EXPECT_EQ(opened, nullptr);
  options.size = sizeof options;
  for (const std::int32_t workers : {-1, INT32_MAX}) {
    options.workers = workers;
    EXPECT_STREQ(loopwright_error_name(loopwright_open(&options, &opened)), "wrong_arguments") << workers;
  }
}

}  // namespace
}  // namespace loopwright
