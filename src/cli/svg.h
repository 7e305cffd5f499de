// A drawing as SVG text, complete in itself.
#pragma once

#include <string>

namespace loopwright::cli {

class Svg {
 public:
  explicit Svg(double width) : width_(width) {}
  enum class Anchor { start, middle, end };

  void rect(double x, double y, double width, double height, const std::string& fill, double opacity = 1, const std::string& stroke = "none");
  void line(double x1, double y1, double x2, double y2, const std::string& stroke, double width = 1, const std::string& dashes = "");
  /// Points as `x,y` separated by blanks.
  void polyline(const std::string& points, const std::string& stroke, double width, const std::string& dashes = "");
  /// Hollow without `fill`; `hover` is shown when the mouse is over it.
  void circle(double x, double y, double radius, const std::string& stroke, const std::string& fill, const std::string& hover = "");
  void text(double x, double y, const std::string& words, double size = 12, Anchor anchor = Anchor::start, const std::string& fill = "#222", bool bold = false,
            const std::string& hover = "");
  /// From below to above, centred at y.
  void text_upwards(double x, double y, const std::string& words, double size = 12);

  double width() const { return width_; }
  std::string document(double height) const;

 private:
  double width_;
  std::string body_;
};

}  // namespace loopwright::cli
