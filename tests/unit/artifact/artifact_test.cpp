#include "loopwright/artifact.h"

#include <gtest/gtest.h>

namespace loopwright {
namespace {

Artifact example() {
  Artifact a;
  a.target = "cpu x86-64-v3";
  a.symbols = {"tokens"};
  const SizeExpr n = SizeExpr::symbol(0);
  a.args = {{"x", DType::bf16, ArgRole::input, {n, 2880}, {2880, 1}},
            {"t", DType::f32, ArgRole::workspace, {n}, {1}},
            {"y", DType::bf16, ArgRole::output, {}, {}}};
  a.guard = *Guard::parse("tokens % 8, align 64");
  a.launches = {CpuLaunch{2, SizeExpr::apply(SizeExpr::Op::ceil_div, n, 8), 4096},
                CudaLaunch{"k", {n, 1, 1}, {128, 1, 1}, {2, 1, 1}, 1024, true, true, {TensorMap{0, {8, n}, {16}, {64, 128}}, TensorMap{1, {n}, {}, {32}, true}}}};
  a.image = {1, 2, 3, 0xff};
  return a;
}

TEST(Artifact, header_and_image_make_the_same_artifact) {
  const Artifact a = example();
  const auto b = Artifact::from_parts(a.header_text(), a.image);
  ASSERT_TRUE(b.ok()) << b.error().message();
  EXPECT_EQ(*b, a);
  EXPECT_EQ(b->header_text(), a.header_text());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Artifact, what_is_wrong_is_named) {
  const std::string header = example().header_text();
  const auto found = [](const std::string& text, std::size_t bytes = 4) {
    const auto a = Artifact::from_parts(text, std::vector<std::uint8_t>(bytes));
    EXPECT_EQ(a.ok() ? ErrorCode::ok : a.error().code, ErrorCode::bad_artifact);
    return a.ok() ? "" : a.error().found;
  };
  EXPECT_NE(found(replaced(header, "\"version\": 1", "\"version\": 2")).find("version 2"), std::string::npos);
  EXPECT_NE(found("{").find("not a JSON object"), std::string::npos);
  EXPECT_NE(found("{}").find("version"), std::string::npos);
  EXPECT_NE(found(replaced(header, "\"bf16\"", "\"bf17\"")).find("unknown dtype"), std::string::npos);
  EXPECT_NE(found(replaced(header, "s0 8 ceil_div", "s1 8 ceil_div")).find("beyond the 1"),
            std::string::npos);
  EXPECT_NE(found(replaced(header, "s0 8 ceil_div", "s0 ceil_div")).find("fewer than two"),
            std::string::npos);
  EXPECT_NE(found(replaced(header, "\"cpu\"", "\"abacus\"")).find("abacus"), std::string::npos);
  EXPECT_NE(found(header, 2).find("outside the image of 2 bytes"), std::string::npos);
  EXPECT_NE(found(replaced(header, "tokens % 8", "tokens % 0")).find("multiple"), std::string::npos);
}

TEST(Artifact, every_truncation_of_a_header_is_refused) {
  const std::string header = example().header_text();
  for (std::size_t n = 0; n + 1 < header.size(); n += 7)
    EXPECT_FALSE(Artifact::from_parts(header.substr(0, n), {1, 2, 3, 4}).ok());
}

TEST(Artifact, roles_read_back) {
  for (const ArgRole role : {ArgRole::input, ArgRole::output, ArgRole::inout, ArgRole::workspace})
    EXPECT_EQ(parse_arg_role(name(role)), role);
}

}  // namespace
}  // namespace loopwright
