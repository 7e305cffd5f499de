#include "src/cli/svg.h"

#include <fmt/format.h>

namespace loopwright::cli {
namespace {

std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20) out += c;  // others may not stand in XML
  }
  return out;
}

std::string title_of(const std::string& hover) { return hover.empty() ? "" : "<title>" + escape_xml(hover) + "</title>"; }

}  // namespace

void Svg::rect(double x, double y, double width, double height, const std::string& fill, double opacity, const std::string& stroke) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"{}\" stroke=\"{}\"/>\n", x, y, width, height, fill,
                       opacity, stroke);
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& stroke, double width, const std::string& dashes) {
  body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", x1, y1, x2, y2, stroke, width,
                       dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\"");
}

void Svg::polyline(const std::string& points, const std::string& stroke, double width, const std::string& dashes) {
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}/>\n", points, stroke, width,
                       dashes.empty() ? "" : " stroke-dasharray=\"" + dashes + "\"");
}

void Svg::circle(double x, double y, double radius, const std::string& stroke, const std::string& fill, const std::string& hover) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" stroke=\"{}\" stroke-width=\"1.4\" fill=\"{}\">{}</circle>\n", x, y, radius, stroke, fill, title_of(hover));
}

void Svg::text(double x, double y, const std::string& words, double size, Anchor anchor, const std::string& fill, bool bold, const std::string& hover) {
  const char* const anchors[] = {"start", "middle", "end"};
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}>{}{}</text>\n", x, y, size, anchors[static_cast<int>(anchor)], fill,
                       bold ? " font-weight=\"bold\"" : "", escape_xml(words), title_of(hover));
}

void Svg::text_upwards(double x, double y, const std::string& words, double size) {
  body_ += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" font-size=\"{}\" text-anchor=\"middle\" fill=\"#222\">{}</text>\n", x, y, size, escape_xml(words));
}

std::string Svg::document(double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width_, height, body_);
}

}  // namespace loopwright::cli
