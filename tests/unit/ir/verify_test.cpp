#include "src/ir/verify.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

Buffer buffer(std::string name, DType dtype = DType::f32, Memory memory = Memory::global) {
  return std::make_shared<const BufferInfo>(BufferInfo{std::move(name), dtype, memory, {int_imm(8)}, {}});
}

struct Fixture : ::testing::Test {
  Buffer x = buffer("x"), y = buffer("y");
  Var i = fresh_var("i");
  Kernel k{"k", Level::scheduled, {{x, ArgRole::input}, {y, ArgRole::output}}, {}, {}, true, Accuracy::strict, seq({})};
  Stmt copy() const { return store(y, {var(i)}, load(x, {var(i)})); }
  std::string problem(Stmt body, Level level = Level::scheduled) {
    k.body = std::move(body);
    const Status s = verify(k, level);
    return s.ok() ? "" : s.error().message();
  }
};
using Verify = Fixture;

TEST_F(Verify, accepts_a_good_kernel_at_every_level) {
  for (const Level level : {Level::naive, Level::scheduled, Level::flat, Level::emittable}) {
    k.body = loop(i, int_imm(8), copy());
    EXPECT_TRUE(verify(k, level).ok());
  }
}

TEST_F(Verify, a_variable_outside_its_loop_is_found_with_its_place) {
  const std::string message = problem(seq({loop(i, int_imm(8), copy()), copy()}));
  EXPECT_NE(message.find("variable `i` is used outside its scope"), std::string::npos) << message;
  EXPECT_NE(message.find(">   y[i] = x[i]"), std::string::npos) << message;
}

TEST_F(Verify, a_shared_expression_is_checked_in_every_scope) {
  const Stmt shared = copy();
  EXPECT_NE(problem(seq({loop(i, int_imm(8), shared), shared})).find("outside its scope"), std::string::npos);
}

TEST_F(Verify, a_variable_bound_twice_is_refused) {
  EXPECT_NE(problem(seq({loop(i, int_imm(8), copy()), loop(i, int_imm(8), copy())})).find("bound twice"),
            std::string::npos);
}

TEST_F(Verify, writing_an_input_is_refused) {
  EXPECT_NE(problem(store(x, {int_imm(0)}, float_imm(0, DType::f32))).find("input `x` is written"),
            std::string::npos);
}

TEST_F(Verify, a_buffer_outside_its_alloc_is_refused) {
  const Buffer t = buffer("t");
  EXPECT_NE(problem(seq({alloc(t, seq({})), store(t, {int_imm(0)}, float_imm(0, DType::f32))}))
                .find("buffer `t` is used outside"),
            std::string::npos);
  EXPECT_NE(problem(alloc(buffer("x"), seq({}))).find("given twice"), std::string::npos);
}

TEST_F(Verify, wrong_dtypes_of_hand_made_nodes_are_found) {
  const Expr bad = std::make_shared<const ExprNode>(
      ExprNode{Binary{BinaryOp::add, int_imm(1), float_imm(1, DType::f32)}, DType::f32});
  EXPECT_NE(problem(store(y, {int_imm(0)}, bad)).find("add of i64 and f32"), std::string::npos);
  const Expr wide = std::make_shared<const ExprNode>(ExprNode{IntImm{300}, DType::i8});
  EXPECT_NE(problem(let(i, wide, seq({}))).find("literal 300 is no value of i8"), std::string::npos);
  const Stmt monoid = update(Monoid::argmax, {y}, {int_imm(0)}, {float_imm(0, DType::f32)});
  EXPECT_NE(problem(monoid).find("an update by argmax of 1 buffers"), std::string::npos);
}

TEST_F(Verify, levels_forbid_what_they_say) {
  EXPECT_NE(problem(loop(i, int_imm(8), copy(), LoopKind::parallel), Level::naive), "");
  EXPECT_EQ(problem(loop(i, int_imm(8), copy(), LoopKind::parallel), Level::emittable), "");
  EXPECT_NE(problem(loop(fresh_var("o"), int_imm(1), loop(i, int_imm(8), copy(), LoopKind::parallel)),
                    Level::emittable),
            "");
  EXPECT_NE(problem(loop(i, int_imm(8), copy(), LoopKind::unroll), Level::flat), "");
  EXPECT_NE(problem(alloc(buffer("t", DType::f32, Memory::registers), seq({})), Level::naive), "");
  const Buffer matrix = std::make_shared<const BufferInfo>(
      BufferInfo{"m", DType::f32, Memory::shared, {int_imm(2), int_imm(2)}, {}});
  EXPECT_EQ(problem(alloc(matrix, seq({})), Level::scheduled), "");
  EXPECT_NE(problem(alloc(matrix, seq({})), Level::flat), "");
}

TEST_F(Verify, names_must_read_back) {
  k.name = "9k";
  EXPECT_FALSE(verify(k).ok());
  k.name = "k";
  k.params.push_back({buffer("and"), ArgRole::input});
  EXPECT_FALSE(verify(k).ok());
}

}  // namespace
}  // namespace loopwright::ir
