// Memory-bound families on the device against the interpreter: clusters, words between blocks, places, and launches that
// begin while the one before ends. Few and small, so that compute-sanitizer ends on them soon.
#include <algorithm>
#include <map>

#include "src/driver/build.h"
#include "src/graph/group.h"
#include "tests/device/device_test_support.h"
#include "tests/support/random_data.h"

namespace loopwright::device_tests {
namespace {

class Families : public OnGpu {
 protected:
  void TearDown() override {
    for (const cuda::Address a : memory_) driver().free(a);
    OnGpu::TearDown();
  }

  cuda::Address upload(const std::vector<std::uint8_t>& data) {
    cuda::Address a = 0;
    EXPECT_EQ(driver().allocate(&a, std::max<std::size_t>(data.size(), 16)), cuda::kSuccess);
    EXPECT_EQ(driver().copy_to_device(a, data.data(), data.size(), nullptr), cuda::kSuccess);
    memory_.push_back(a);
    return a;
  }

  /// The first template that takes the graph, launched several times in a row, the last time onto poison.
  void check(const std::string& text, const Bindings& sizes = {}, const Picks& picks = {}) {
    const auto graph = Graph::parse("graph g\n" + text, "test");
    ASSERT_TRUE(graph.ok()) << graph.error().message();
    const auto groups = graph::group_ops(*graph);
    ASSERT_EQ(groups.size(), 1u) << text;
    const auto job = driver::make_job(graph::make_workload(groups[0].graph));
    Space space(picks);
    const Target& target = device().target();
    const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, target).front(), space, target);
    ASSERT_TRUE(scheduled.ok()) << scheduled.error().message();
    const auto artifact = driver::build(*scheduled, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message();
    const auto loaded = device().load(*artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();

    test::Arguments arguments = test::random_arguments(job->naive, sizes, 5);
    const auto expected = test::interpret_copy(job->naive, sizes, arguments);
    ASSERT_TRUE(expected.ok()) << expected.error().message();
    std::vector<std::int64_t> symbols;
    for (const std::string& name : artifact->symbols) symbols.push_back(sizes.at(name));
    std::vector<void*> buffers;
    for (const ArtifactArg& a : artifact->args) {
      std::vector<std::uint8_t> bytes;
      if (a.role == ArgRole::input) bytes = arguments.at(a.name).data;
      else if (a.role == ArgRole::output) bytes.assign(arguments.at(a.name).data.size(), 0xff);
      else bytes.assign(workspace_bytes(a, symbols), a.zeroed ? 0 : 0xff);
      buffers.push_back(reinterpret_cast<void*>(upload(bytes)));
    }
    runtime::KernelCall call;
    call.buffers = buffers.data();
    call.symbols = symbols.data();
    constexpr int kLaunches = 4;
    for (int i = 0; i < kLaunches; ++i) {
      ASSERT_EQ(device().launch(**loaded, call), ErrorCode::ok) << text << device().describe_failure();
      if (i != kLaunches - 2) continue;
      for (std::size_t b = 0; b < buffers.size(); ++b) {
        if (artifact->args[b].role != ArgRole::output) continue;
        const std::vector<std::uint8_t> poison(arguments.at(artifact->args[b].name).data.size(), 0xff);
        ASSERT_EQ(driver().copy_to_device(reinterpret_cast<cuda::Address>(buffers[b]), poison.data(), poison.size(), nullptr), cuda::kSuccess);
        ASSERT_EQ(driver().wait_stream(nullptr), cuda::kSuccess);
      }
    }
    ASSERT_EQ(device().wait(nullptr), ErrorCode::ok) << text << device().describe_failure();
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (artifact->args[b].role != ArgRole::output) continue;
      std::vector<std::uint8_t>& data = arguments.at(artifact->args[b].name).data;
      ASSERT_EQ(driver().copy_to_host(data.data(), reinterpret_cast<cuda::Address>(buffers[b]), data.size(), nullptr), cuda::kSuccess);
    }
    driver().wait_stream(nullptr);
    const auto difference = test::find_difference(job->naive, *expected, arguments, true, true);
    EXPECT_FALSE(difference.has_value()) << text << *difference << "\n" << scheduled->trace;
  }

  cuda::Address reserve(std::size_t bytes, std::uint8_t content) {
    cuda::Address a = 0;
    if (driver().allocate(&a, bytes) != cuda::kSuccess) return 0;
    memory_.push_back(a);
    EXPECT_EQ(driver().fill(a, content, bytes, nullptr), cuda::kSuccess);
    return a;
  }

  template <class T>
  T read(cuda::Address at) const {
    T value{};
    EXPECT_EQ(driver().copy_to_host(&value, at, sizeof value, nullptr), cuda::kSuccess);
    EXPECT_EQ(driver().wait_stream(nullptr), cuda::kSuccess);
    return value;
  }

  /// Elements of a large input that are not zero: on both sides of 2^31 and at the ends.
  static std::map<std::int64_t, std::int8_t> list_marks(std::int64_t count) {
    constexpr std::int64_t kEdge = 1LL << 31;
    return {{0, 3}, {1, 5}, {kEdge - 1, 7}, {kEdge, 11}, {kEdge + 1, 13}, {count - 1, 17}};
  }

  /// Where the default of `family` for one input i8 of `count` elements, zero but for the marks, put its output, which was all ones
  /// before; 0 when the memory is not free.
  cuda::Address run_large(const std::string& family, const std::string& text, std::int64_t count) {
    const auto graph = Graph::parse("graph g\n" + text, "test");
    EXPECT_TRUE(graph.ok()) << graph.error().message();
    const auto groups = graph::group_ops(*graph);
    EXPECT_EQ(groups.size(), 1u) << text;
    const auto job = driver::make_job(graph::make_workload(groups[0].graph));
    const Target& target = device().target();
    const Template& chosen = *driver::templates_for(*job, target).front();
    EXPECT_EQ(chosen.name, family);
    Space space;
    const auto scheduled = driver::run_template(*job, chosen, space, target);
    EXPECT_TRUE(scheduled.ok()) << scheduled.error().message();
    const auto artifact = driver::build(*scheduled, target);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
    const auto loaded = device().load(*artifact);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message();
    cuda::Address output = 0;
    std::vector<void*> buffers;
    for (const ArtifactArg& a : artifact->args) {
      const cuda::Address at = reserve(workspace_bytes(a, {}), a.role == ArgRole::input || a.zeroed ? 0 : 0xff);
      if (at == 0) return 0;
      if (a.role == ArgRole::output) output = at;
      const auto marks = a.role == ArgRole::input ? list_marks(count) : std::map<std::int64_t, std::int8_t>{};
      for (const auto& [position, value] : marks) {
        EXPECT_EQ(driver().copy_to_device(at + static_cast<cuda::Address>(position), &value, 1, nullptr), cuda::kSuccess);
      }
      buffers.push_back(reinterpret_cast<void*>(at));
    }
    EXPECT_EQ(driver().wait_stream(nullptr), cuda::kSuccess);
    runtime::KernelCall call;
    call.buffers = buffers.data();
    EXPECT_EQ(device().launch(**loaded, call), ErrorCode::ok) << device().describe_failure();
    EXPECT_EQ(device().wait(nullptr), ErrorCode::ok) << device().describe_failure();
    return output;
  }

  static std::size_t workspace_bytes(const ArtifactArg& a, const std::vector<std::int64_t>& symbols) {
    std::int64_t count = 1;
    for (const SizeExpr& extent : a.shape) count *= extent.evaluate(symbols.data());
    return static_cast<std::size_t>(count * size_bytes(a.dtype));
  }

  std::vector<cuda::Address> memory_;
};

TEST_F(Families, rows_of_a_cluster_agree) {
  for (const char* body : {"output y = cast(softmax(h, axis=-1), bf16)\n", "output y = cast(rms_norm(h, eps=1e-5), bf16)\n", "output y = reduce_max(h, axes=[-1])\n"})
    check("input x: bf16[2, 33000]\nh = cast(x, f32)\n" + std::string(body));
}

TEST_F(Families, places_agree_where_values_are_equal_or_no_numbers) {
  for (const char* columns : {"264", "20001", "40000"})
    for (const char* what : {"argmax(floor(x)", "argmin(sqrt(x)", "argmax(trunc(min(x, 0.5))"})
      check("input x: bf16[3, " + std::string(columns) + "]\noutput y = " + what + ", axes=[-1])\n");
}

TEST_F(Families, blocks_that_meet_in_words_or_at_a_counter_agree) {
  check("input x: bf16[300, 264]\noutput y = sum(cast(x, f32))\n");
  check("input x: i64[100, 400] strides [800, 2]\ny = sin(cast(x, f32))\noutput p = gt(sum(y), 0)\noutput y\n");
  check("symbol n in 1..5000\ninput x: f32[n, 8]\noutput y = gt(reduce_max(x), 0)\n", {{"s0", 4001}});
  check("input x: bf16[600, 264]\noutput y = sum(cast(x, f32), axes=[0])\n");
}

TEST_F(Families, rows_that_are_not_held_are_reduced_together) {
  check("input x: f32[40, 1000]\ns = sum(x, axes=[-1])\noutput d = sub(reduce_max(x, axes=[-1]), s)\noutput s\n", {}, {{"hold", 0}});
}

TEST_F(Families, running_sums_agree) {
  // Lanes of a row, a block, passes of a block, a cluster, columns.
  for (const char* shape : {"[40, 24]", "[3, 1000]", "[2, 33000]", "[1, 140000]"}) {
    check("input x: f32" + std::string(shape) + "\noutput y = cumulative_sum(x, axis=1)\n");
    check("input x: bf16" + std::string(shape) + "\noutput y = cumulative_sum(x, axis=1)\n");
  }
  check("symbol n in 1..900\ninput x: i64[n, 33]\noutput y = cumulative_sum(x, axis=1)\n", {{"s0", 77}});
  check("input x: f32[2, 1000, 40]\noutput y = cumulative_sum(x, axis=1)\n");
  check("symbol n in 1..900\ninput x: bf16[n, 70]\noutput y = cumulative_sum(x, axis=0)\n", {{"s0", 519}});
}

TEST_F(Families, scatters_agree) {
  // Rows by one index each, of which many are equal; few indices; one dimension; sums in a wider type.
  for (const char* reduce : {"", ", reduce=add"}) {
    const std::string rows = "r = broadcast(reshape(i, shape=[700, 1]), shape=[700, 72])\noutput y = scatter(x, r, v, axis=0" + std::string(reduce) + ")\n";
    check("input x: f32[50, 72]\ninput i: i64[700]\ninput v: f32[700, 72]\n" + rows);
    check("input x: bf16[50, 72]\ninput i: i32[700]\ninput v: bf16[700, 72]\n" + rows);
    check("input x: f32[40, 3, 200]\ninput i: i64[40, 2, 200]\ninput v: f32[40, 2, 200]\noutput y = scatter(x, i, v, axis=1" + std::string(reduce) + ")\n");
    check("symbol n in 1..900\ninput x: f32[5000]\ninput i: i64[n]\ninput v: f32[n]\noutput y = scatter(x, i, v, axis=0" + std::string(reduce) + ")\n", {{"s0", 800}});
  }
}

TEST_F(Families, columns_of_several_results_agree) {
  for (const char* rows : {"40", "6000"})
    check("input x: bf16[" + std::string(rows) + ", 264]\nh = cast(x, f32)\ns = sum(h, axes=[0])\noutput d = sub(reduce_max(h, axes=[0]), s)\noutput s\n");
}

TEST_F(Families, empty_tensors_give_what_nothing_gives) {
  check("symbol n in 0..900\ninput x: f32[n, 40]\noutput y = sum(x, axes=[0])\n", {{"s0", 0}});
  check("symbol n in 0..900\ninput x: bf16[3, n]\noutput y = reduce_max(x, axes=[-1])\n", {{"s0", 0}});
  check("symbol n in 0..900\ninput x: f32[n, 40]\noutput y = permute(x, axes=[1, 0])\n", {{"s0", 0}});
}

constexpr std::int64_t kLargeRows = 46400;  // of as many columns: more than 2^31 elements

TEST_F(Families, elements_beyond_two_to_the_31_agree) {
  const std::int64_t count = (1LL << 31) + 4096;
  const cuda::Address y = run_large("gpu_elementwise", "input x: i8[" + std::to_string(count) + "]\noutput y = add(x, x)\n", count);
  if (y == 0) GTEST_SKIP() << "4.3 GB of device memory are not free";
  const auto marks = list_marks(count);
  for (const auto& [position, value] : marks)
    for (std::int64_t i = std::max<std::int64_t>(position - 40, 0); i < std::min(position + 40, count); ++i)
      EXPECT_EQ(read<std::int8_t>(y + static_cast<cuda::Address>(i)), marks.contains(i) ? 2 * marks.at(i) : 0) << i;
}

TEST_F(Families, a_sum_of_more_than_two_to_the_31_elements_agrees) {
  const std::int64_t count = (1LL << 31) + 4096;
  const cuda::Address y = run_large("gpu_full_reduction", "input x: i8[" + std::to_string(count) + "]\noutput y = sum(cast(x, i32))\n", count);
  if (y == 0) GTEST_SKIP() << "2.2 GB of device memory are not free";
  EXPECT_EQ(read<std::int32_t>(y), 3 + 5 + 7 + 11 + 13 + 17);
}

TEST_F(Families, rows_beyond_two_to_the_31_elements_agree) {
  const std::int64_t columns = 512, rows = (1LL << 22) + 8;
  const cuda::Address y = run_large("gpu_row", "input x: i8[" + std::to_string(rows) + ", 512]\noutput y = sum(cast(x, i32), axes=[-1])\n", rows * columns);
  if (y == 0) GTEST_SKIP() << "2.2 GB of device memory are not free";
  std::map<std::int64_t, std::int32_t> sums;
  for (const auto& [position, value] : list_marks(rows * columns)) sums[position / columns] += value;
  for (const auto& [row, sum] : sums)
    for (std::int64_t r = std::max<std::int64_t>(row - 9, 0); r < std::min(row + 9, rows); ++r)
      EXPECT_EQ(read<std::int32_t>(y + 4 * static_cast<cuda::Address>(r)), sums.contains(r) ? sums.at(r) : 0) << r;
}

TEST_F(Families, a_transpose_of_more_than_two_to_the_31_elements_agrees) {
  const std::string n = std::to_string(kLargeRows);
  const std::int64_t count = kLargeRows * kLargeRows;
  const cuda::Address y = run_large("gpu_transpose", "input x: i8[" + n + ", " + n + "]\noutput y = permute(x, axes=[1, 0])\n", count);
  if (y == 0) GTEST_SKIP() << "4.3 GB of device memory are not free";
  std::map<std::int64_t, std::int8_t> there;
  for (const auto& [position, value] : list_marks(count)) there[position % kLargeRows * kLargeRows + position / kLargeRows] = value;
  for (const auto& [position, value] : there)
    for (std::int64_t i = std::max<std::int64_t>(position - 40, 0); i < std::min(position + 40, count); ++i)
      EXPECT_EQ(read<std::int8_t>(y + static_cast<cuda::Address>(i)), there.contains(i) ? there.at(i) : 0) << i;
}

}  // namespace
}  // namespace loopwright::device_tests
