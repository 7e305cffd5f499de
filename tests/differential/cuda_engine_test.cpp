// What the emulated GPU says of texts whose barriers are wrong: each of these mistakes in a ring has to be noticed.
#include <gtest/gtest.h>

#include "src/driver/build.h"
#include "src/ir/text.h"
#include "tests/differential/cuda_emulation.h"

namespace loopwright::test {
namespace {

/// Two warps that read rows from the slots of a ring, and meet nowhere else.
const char* const kRowRing = R"(kernel rows(x: f32[11, 128] in, y: f32[11, 128] out)
  assume align 16
  level scheduled
  for block in 0..2 grid_x
    alloc t: f32[2, 1, 128] shared
    for round in 0..6 ring
      let i: i64 = round*2 + block
      if i < 11
        for a in 0..1 bulk
          for c in 0..128
            t[mod(round, 2), a, c] = x[i + a, c]
        for w in 0..64 thread_x
          for v in 0..2
            y[i, w*2 + v] = t[mod(round, 2), 0, w*2 + v]*2.0f32
)";

codegen::CudaText emit(const std::string& kernel) {
  const Target target = *Target::parse("cuda:sm_90a");
  const auto parsed = ir::parse_kernel(kernel);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  const auto lowered = driver::lower_kernel(*parsed, target);
  EXPECT_TRUE(lowered.ok()) << lowered.error().message();
  const auto text = codegen::emit_cuda(*lowered, target, "rows");
  EXPECT_TRUE(text.ok()) << text.error().message();
  return *text;
}

/// How the text fails in the first order of turns in which it does; empty where it does not.
std::string find_failure(const codegen::CudaText& text) {
  const auto program = EmulatedProgram::compile({&text});
  EXPECT_TRUE(program.ok()) << program.error().message() << text.functions;
  if (!program.ok()) return {};
  constexpr int kRows = 11, kColumns = 128;
  for (const Turns turns : {Turns{false, false}, {true, false}, {false, true}, {true, true}}) {
    alignas(256) static float x[kRows * kColumns], y[kRows * kColumns];
    for (int i = 0; i < kRows * kColumns; ++i) x[i] = static_cast<float>(i), y[i] = -1;
    const Status ran = program->run(text, {x, y}, {}, turns);
    if (!ran.ok()) return ran.error().found;
    for (int i = 0; i < kRows * kColumns; ++i)
      if (y[i] != 2 * x[i]) return "wrong results";
  }
  return {};
}

/// The text with the first (or last) occurrence of a part replaced.
codegen::CudaText with(codegen::CudaText text, const std::string& part, const std::string& instead,
                       bool last = false) {
  const std::size_t at = last ? text.functions.rfind(part) : text.functions.find(part);
  EXPECT_NE(at, std::string::npos) << part << "\n" << text.functions;
  if (at != std::string::npos) text.functions.replace(at, part.size(), instead);
  return text;
}

/// The statement that begins with this, as the text has it.
std::string statement(const codegen::CudaText& text, const std::string& begin, bool last = false) {
  const std::size_t at = last ? text.functions.rfind(begin) : text.functions.find(begin);
  EXPECT_NE(at, std::string::npos) << begin << "\n" << text.functions;
  return at == std::string::npos ? begin : text.functions.substr(at, text.functions.find(';', at) + 1 - at);
}

/// Two warps that copy what the other one reads.
const char* const kAsyncRing = R"(kernel rows(x: f32[11, 128] in, y: f32[11, 128] out)
  assume align 16
  level scheduled
  for block in 0..1 grid_x
    alloc t: f32[3, 128] shared
    for k in 0..11 ring
      for one in 0..1 async
        for w in 0..64 thread_x
          for v in 0..2 vectorize
            t[mod(k, 3), w*2 + v] = x[k, w*2 + v]
      for w_1 in 0..64 thread_x
        for v_1 in 0..2
          y[k, 126 - w_1*2 + v_1] = t[mod(k, 3), 126 - w_1*2 + v_1]*2.0f32
)";

TEST(CudaEngine, runs_copies_that_threads_go_on_without) {
  const codegen::CudaText text = emit(kAsyncRing);
  EXPECT_EQ(find_failure(text), "") << text.functions;
}

TEST(CudaEngine, notices_copies_that_nobody_waits_for) {
  const codegen::CudaText text = emit(kAsyncRing);
  EXPECT_NE(find_failure(with(text, "lw_copies_wait_1();", "")), "");
  EXPECT_NE(find_failure(with(text, "lw_copies_wait_1();", "lw_copies_wait_2();")), "");
  EXPECT_NE(find_failure(with(text, "lw_copies_commit();", "", true)), "");
}

TEST(CudaEngine, notices_threads_that_do_not_meet_behind_their_copies) {
  const codegen::CudaText text = emit(kAsyncRing);
  EXPECT_EQ(find_failure(with(text, "__syncthreads();", "")), "wrong results") << text.functions;
}

TEST(CudaEngine, notices_copies_too_far_ahead) {
  const codegen::CudaText text = emit(kAsyncRing);
  EXPECT_NE(find_failure(with(text, " + 2 < ", " + 3 < ")), "");
  EXPECT_EQ(find_failure(with(text, ", 8);", ", 4);")), "wrong results") << text.functions;
}

TEST(CudaEngine, runs_a_ring_of_rows) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_EQ(find_failure(text), "") << text.functions;
}

TEST(CudaEngine, notices_rows_that_are_read_before_they_are_there) {
  const codegen::CudaText text = emit(kRowRing);
  // Waits in the text: before the first copies, of the readers, before the copies that follow.
  const std::size_t second = text.functions.find("lw_wait(", text.functions.find("lw_wait(") + 1);
  codegen::CudaText without = text;
  without.functions.erase(second, text.functions.find(';', second) + 1 - second);
  EXPECT_NE(find_failure(without), "") << without.functions;
}

TEST(CudaEngine, notices_the_wrong_phase) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_NE(find_failure(with(text, " / 2 & 1);", " / 2 & 1 ^ 1);")), "");
}

TEST(CudaEngine, notices_slots_that_are_filled_while_they_are_read) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_NE(find_failure(with(text, statement(text, "lw_wait(", true), "", true)), "");
}

TEST(CudaEngine, notices_bytes_that_nobody_expects_and_bytes_that_never_come) {
  const codegen::CudaText text = emit(kRowRing);
  for (const bool last : {false, true}) {
    EXPECT_EQ(find_failure(with(text, ", 512);", ", 496);", last)),
              "more bytes at a barrier than it expects");
    EXPECT_EQ(find_failure(with(text, ", 512);", ", 528);", last)), "its threads wait for ever");
    EXPECT_NE(find_failure(with(text, ", 512, ", ", 496, ", last)), "");
  }
}

TEST(CudaEngine, notices_a_slot_that_is_not_released) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_EQ(find_failure(with(text, statement(text, "if ((threadIdx.x & 31) == 0) lw_release("), "")),
            "its threads wait for ever");
  EXPECT_EQ(find_failure(
                with(text, "if ((threadIdx.x & 31) == 0) lw_release(", "if (threadIdx.x == 0) lw_release(")),
            "its threads wait for ever");
  EXPECT_NE(find_failure(with(text, "if ((threadIdx.x & 31) == 0) lw_release(",
                              "if ((threadIdx.x & 15) == 0) lw_release(")),
            "");
}

TEST(CudaEngine, notices_barriers_that_count_other_arrivals) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_EQ(find_failure(with(text, " * 8, 2); }", " * 8, 3); }")), "its threads wait for ever");
  EXPECT_NE(find_failure(with(text, " * 8, 2); }", " * 8, 1); }")), "");
}

TEST(CudaEngine, notices_copies_to_the_slot_of_another_row) {
  const codegen::CudaText text = emit(kRowRing);
  EXPECT_EQ(find_failure(with(text, " % 2 * 128), ", " % 2 * 0), ", true)), "wrong results");
}

TEST(CudaEngine, notices_copies_that_are_under_way_when_the_block_ends) {
  const codegen::CudaText text = emit(kRowRing);
  const std::string copy = statement(text, "lw_copy_row(", true);
  EXPECT_NE(find_failure(with(text, copy, copy + " " + statement(text, "lw_expect(", true) + copy, true)),
            "");
}

}  // namespace
}  // namespace loopwright::test
