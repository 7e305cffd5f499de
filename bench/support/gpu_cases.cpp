#include "bench/support/gpu_cases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace loopwright::bench {
namespace {

std::string dims(std::initializer_list<long> values) {
  std::string text;
  for (const long v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return "[" + text + "]";
}

/// The `mem` suite: bf16, weights of the row's length.
void add_suite(std::vector<Case>& cases) {
  constexpr std::array<std::array<long, 2>, 5> kShapes = {
      {{4096, 4096}, {32768, 2048}, {2048, 2880}, {16384, 8192}, {8, 131072}}};
  const std::map<std::string, std::string> bodies = {
      {"softmax", "y = softmax(x, axis=-1)\n"},
      {"layernorm", "y = layer_norm(x, w, w, eps=1e-5)\n"},
      {"rmsnorm",
       "h = cast(x, f32)\ny = cast(mul(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), "
       "cast(w, f32)), bf16)\n"},
      {"gelu_mul", "y = mul(gelu_tanh(x), w)\n"},
      {"sum", "y = sum(cast(x, f32))\n"},
      {"colsum", "y = sum(cast(x, f32), axes=[0])\n"}};
  for (const auto& [rows, columns] : kShapes)
    for (const char* family : {"softmax", "layernorm", "rmsnorm", "gelu_mul", "sum", "colsum"}) {
      const bool reduces = std::strstr(family, "sum") != nullptr;
      const bool weighs = std::strcmp(family, "layernorm") == 0 || std::strcmp(family, "rmsnorm") == 0 ||
                          std::strcmp(family, "gelu_mul") == 0;
      std::string graph =
          std::string("graph ") + family + "_" + std::to_string(rows) + "_" + std::to_string(columns) + "\n";
      graph += "input x: bf16" + dims({rows, columns}) + "\n";
      if (weighs) graph += "input w: bf16" + dims({columns}) + "\n";
      graph += bodies.at(family) + "output y\n";
      const double bytes = 2.0 * static_cast<double>(rows) * static_cast<double>(columns);
      cases.push_back({family, dims({rows, columns}), graph, {}, bytes, reduces ? 0 : bytes, true});
    }
}

/// One graph over a range of tokens, at the sizes that a decoder meets.
void add_rms_range(std::vector<Case>& cases) {
  for (long s = 1; s <= 2048; s *= 2) {
    const double bytes = 2.0 * 2880 * static_cast<double>(s);
    cases.push_back(
        {"rms-f32",
         dims({s, 2880}),
         "graph rms_range\nsymbol tokens in 1..8192\ninput x: bf16[tokens, 2880]\ninput w: f32[2880]\n"
         "h = cast(x, f32)\ny = cast(mul(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), "
         "w), bf16)\n"
         "output y\n",
         {{"tokens", s}},
         bytes,
         bytes,
         false});
  }
}

void add_others(std::vector<Case>& cases) {
  cases.push_back({"sinsum",
                   "i64[400,400]",
                   "graph sin_sum_gt\ninput x: i64[400, 400] strides [800, 2]\ny = sin(cast(x, f32))\n"
                   "positive = gt(sum(y), 0)\noutput y\noutput positive\n",
                   {},
                   400.0 * 800 * 8,
                   400.0 * 400 * 4,
                   false});
  const auto move = [&](const char* family, const std::string& shape, const std::string& text, double bytes) {
    cases.push_back({family, shape, text, {}, bytes, bytes, false});
  };
  move("transp16", "[8192,8192]",
       "graph transpose_bf16\ninput x: bf16[8192, 8192]\noutput y = copy(permute(x, axes=[1, 0]))\n",
       2.0 * 8192 * 8192);
  move("transp32", "[8192,4096]",
       "graph transpose_f32\ninput x: f32[8192, 4096]\noutput y = copy(permute(x, axes=[1, 0]))\n",
       4.0 * 8192 * 4096);
  move("permute", "[8,2048,32,128]",
       "graph permute_heads\ninput x: bf16[8, 2048, 32, 128]\noutput y = copy(permute(x, axes=[0, 2, 1, "
       "3]))\n",
       2.0 * 8 * 2048 * 32 * 128);
  const auto scan = [&](const std::string& rows, const std::string& columns, int axis) {
    move(axis == 1 ? "cumsum" : "colcumsum", "[" + rows + "," + columns + "]",
         "graph cumulative_sum_" + rows + "_" + columns + "_" + std::to_string(axis) + "\ninput x: f32[" +
             rows + ", " + columns + "]\noutput y = cumulative_sum(x, axis=" + std::to_string(axis) + ")\n",
         4.0 * std::stod(rows) * std::stod(columns));
  };
  scan("4096", "4096", 1);
  scan("64", "131072", 1);
  scan("262144", "64", 1);
  scan("4096", "4096", 0);
  cases.push_back({"argmax",
                   "[64,128256]",
                   "graph argmax_rows\ninput x: bf16[64, 128256]\noutput y = argmax(x, axes=[-1])\n",
                   {},
                   2.0 * 64 * 128256,
                   0,
                   false});
}

/// Norms that depend on each other: what a launch costs beyond its work.
void add_chain(std::vector<Case>& cases) {
  Case chain = *std::find_if(cases.begin(), cases.end(),
                             [](const Case& c) { return c.name() == "rms-f32 [16,2880]"; });
  chain.family = "chain";
  chain.links = 100;
  cases.push_back(std::move(chain));
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_suite(cases);
  add_rms_range(cases);
  add_chain(cases);
  add_others(cases);
  return cases;
}

}  // namespace loopwright::bench
