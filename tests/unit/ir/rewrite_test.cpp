#include "src/ir/rewrite.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/ir/verify.h"

namespace loopwright::ir {
namespace {

Kernel parsed_body(const std::string& body) {
  auto k =
      parse_kernel("kernel k(x: f32[8] in, y: f32[8] out)\n  symbol n in 1..8\n  level scheduled\n" + body);
  if (!k.ok()) throw std::runtime_error(k.error().message());
  return *k;
}

constexpr const char* kBody =
    "  for i in 0..n\n    alloc t: f32[n - i] registers\n    t[0] = x[i]\n    let v: f32 = t[0]*2.0f32\n    "
    "if i < 4\n      y[i] = v\n";

TEST(Rewrite, nothing_changed_is_the_same_pointer) {
  const Kernel k = parsed_body(kBody);
  EXPECT_EQ(rewrite(k.body, [](const Expr& e) { return e; }, [](const Stmt& s) { return s; }), k.body);
  EXPECT_EQ(substitute(k.body, {{fresh_var("z"), int_imm(1)}}), k.body);
}

TEST(Rewrite, shared_nodes_are_visited_once) {
  Expr e = var(fresh_var("i"));
  for (int n = 0; n < 60; ++n) e = e + e;  // 2^60 paths
  int visits = 0;
  rewrite(e, [&](const Expr& x) {
    ++visits;
    return x;
  });
  EXPECT_EQ(visits, 61);
  EXPECT_EQ(free_vars(e).size(), 1u);
}

TEST(Rewrite, substitution_reaches_shapes_of_allocated_buffers_and_folds) {
  const Kernel k = parsed_body(kBody);
  const auto& l = *as<Loop>(k.body);
  Kernel out = k;
  out.body = substitute(l.body, {{l.var, int_imm(2)}, {k.symbols[0].var, int_imm(5)}});
  EXPECT_EQ(print(out.body),
            "alloc t: f32[3] registers\nt[0] = x[2]\nlet v: f32 = t[0]*2.0f32\nif true\n  y[2] = v\n");
  EXPECT_TRUE(verify(out).ok());
}

TEST(Rewrite, clones_bind_new_variables_and_buffers) {
  Kernel k = parsed_body(kBody);
  const std::string text = print(k);
  const Stmt copy = clone_bindings(k.body);
  Kernel twice = k;
  twice.body = seq({k.body, k.body});
  EXPECT_FALSE(verify(twice).ok());
  k.body = copy;
  EXPECT_EQ(print(k), text);
  const auto& original = *as<Loop>(as<Seq>(twice.body)->items[0]);
  EXPECT_FALSE(as<Loop>(copy)->var == original.var);
  EXPECT_NE(as<Alloc>(as<Loop>(copy)->body)->buffer, as<Alloc>(original.body)->buffer);
}

TEST(Rewrite, free_variables_include_those_of_shapes) {
  const Kernel k = parsed_body(kBody);
  const auto& l = *as<Loop>(k.body);
  EXPECT_EQ(free_vars(k.body), std::set<Var>{k.symbols[0].var});
  EXPECT_EQ(free_vars(l.body), (std::set<Var>{k.symbols[0].var, l.var}));
  EXPECT_TRUE(uses(l.body, k.symbols[0].var));
}

TEST(Rewrite, buffers_are_replaced_where_they_are_named) {
  const Kernel k = parsed_body("  for i in 0..8\n    y[i] = x[i]\n    update sum y[i] by x[0]\n");
  const auto z =
      std::make_shared<const BufferInfo>(BufferInfo{"z", DType::f32, Memory::global, {int_imm(8)}, {}});
  const Stmt out = replace_buffers(k.body, {{k.params[1].buffer, z}});
  EXPECT_EQ(print(out), "for i in 0..8\n  z[i] = x[i]\n  update sum z[i] by x[0]\n");
  const Accesses a = buffers_of(out);
  EXPECT_EQ(a.written, std::vector<Buffer>{z});
  EXPECT_EQ(a.read.size(), 2u);
}

}  // namespace
}  // namespace loopwright::ir
