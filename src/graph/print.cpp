#include <algorithm>
#include <array>

#include "src/graph/ops.h"
#include "src/graph/text_format.h"
#include "src/support/text.h"

namespace loopwright::graph {
namespace {

template <class T, class F>
std::string list_text(const std::vector<T>& items, F item_text) {
  std::string out = "[";
  for (std::size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + item_text(items[i]);
  return out + "]";
}

std::string attribute_text(const Attribute& value, DType dtype) {
  return std::visit(
      ir::on{
          [&](std::int64_t v) {
            if (dtype == DType::boolean) return std::string(v ? "true" : "false");
            return std::to_string(v);
          },
          [](double v) { return text::real_text(v); },
          [](bool v) { return std::string(v ? "true" : "false"); },
          [](const std::string& v) { return v; },
          [](DType v) { return std::string(name(v)); },
          [](const std::vector<std::int64_t>& v) {
            return list_text(v, [](std::int64_t i) { return std::to_string(i); });
          },
          [](const std::vector<Dim>& v) { return list_text(v, [](const Dim& d) { return d.text(); }); },
      },
      value);
}

std::string node_text(const Graph& g, const Node& node) {
  if (node.op == "input") return "input " + node.name + ": " + node.type.text();
  std::string out = node.name + " = " + node.op + "(";
  bool first = true;
  for (Value v : node.inputs) {
    out += (first ? "" : ", ") + g.node(v).name;
    first = false;
  }
  for (const NamedAttribute& attribute : node.attributes) {
    const bool is_value = node.op == "constant" && attribute.name == "value";
    out += (first ? "" : ", ") + attribute.name + "=" +
           attribute_text(attribute.value, is_value ? node.type.dtype : DType::f32);
    first = false;
  }
  return out + ")";
}

}  // namespace

bool is_name(std::string_view text) {
  constexpr std::array kWords = {"graph",   "symbol", "input", "output", "update", "in",
                                 "strides", "true",   "false", "inf",    "nan"};
  constexpr std::size_t kLongestName = 256;
  return text.size() <= kLongestName && text::is_identifier(text) &&
         text.find('.') == std::string_view::npos &&
         std::find(kWords.begin(), kWords.end(), text) == kWords.end() && !parse_dtype(text);
}

std::string print_graph(const Graph& g) {
  text::Writer out;
  out.line("graph " + g.name());
  if (g.accuracy() != Accuracy::strict) out.line("accuracy " + std::string(name(g.accuracy())));
  for (const Symbol& s : g.symbols())
    out.line("symbol " + s.name + " in " + std::to_string(s.lo) + ".." + std::to_string(s.hi));
  for (const Node& node : g.nodes()) out.line(node_text(g, node));
  for (const Graph::Output& output : g.outputs()) out.line("output " + output.name);
  for (const Graph::Update& update : g.updates())
    out.line("update " + g.node(update.input).name + " = " + g.node(update.value).name);
  return out.take();
}

}  // namespace loopwright::graph
