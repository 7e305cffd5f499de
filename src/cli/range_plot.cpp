#include "src/cli/range_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

// Colours that people with any kind of colour vision tell apart.
constexpr const char* kColours[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D31", "#7F7F7F"};
constexpr const char *kGrid = "#dddddd", *kAxis = "#444444", *kOther = "#b0b0b0", *kBorder = "#666666";
constexpr double kLeft = 92, kRight = 28, kBand = 20;  // kBand: the strip with the variants' letters
constexpr double kBadLoss = 0.05;

/// A logarithmic axis between two places of the drawing.
struct Scale {
  double lo = 1, hi = 2, from = 0, to = 1;
  double at(double value) const {
    const double range = std::log(hi) - std::log(lo);
    return from + (to - from) * (range > 0 ? (std::log(std::clamp(value, lo, hi)) - std::log(lo)) / range : 0.5);
  }
};

struct Panel {
  double x = 0, y = 0, width = 0, height = 0;
  double bottom() const { return y + height; }
};

Scale scale_of(const Symbol& s, double from, double to) {
  return {std::max(1.0, static_cast<double>(s.lo)), std::max(1.0, static_cast<double>(s.hi)), from, to};
}

/// Powers of two that stand far enough apart, and the last value.
std::vector<std::int64_t> list_ticks(const Symbol& s, double length, double gap) {
  const Scale scale = scale_of(s, 0, length);
  std::vector<std::int64_t> ticks;
  for (std::int64_t p = 1; p <= s.hi && p > 0; p *= 2) {
    const bool fits = p >= s.lo && (ticks.empty() || scale.at(static_cast<double>(p)) - scale.at(static_cast<double>(ticks.back())) >= gap);
    if (fits && (p == s.hi || length - scale.at(static_cast<double>(p)) >= gap)) ticks.push_back(p);
  }
  if (ticks.empty() || ticks.back() != s.hi) ticks.push_back(s.hi);
  return ticks;
}

/// 1, 2, 5, 10, … times a power of ten; only the powers where there are many.
std::vector<double> list_time_ticks(double lo, double hi) {
  std::vector<double> ticks;
  const bool coarse = hi / lo > 200;
  for (double power = std::pow(10, std::floor(std::log10(lo))); power <= hi; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (power * step >= lo && power * step <= hi && (!coarse || step == 1)) ticks.push_back(power * step);
    }
  }
  return ticks;
}

class KernelPlot {
 public:
  KernelPlot(Svg& svg, const KernelRanges& kernel, const std::vector<MeasuredShape>& shapes) : svg_(svg), kernel_(kernel), shapes_(shapes) {
    for (const db::BestEntry& e : kernel.ranges) letters_.try_emplace(e.best.candidate, static_cast<int>(letters_.size()));
  }

  double draw(double top) {
    double y = draw_title(top);
    if (shapes_.empty()) {
      svg_.text(kLeft, y + 10, "No measurements beside each other are stored.", 12, Svg::Anchor::start, "#444");
      return draw_list(y + 36);
    }
    if (kernel_.symbols.size() == 1) y = draw_curves(y);
    if (kernel_.symbols.size() == 2) y = draw_map(y);
    if (kernel_.symbols.size() > 2) {
      for (const Symbol& s : kernel_.symbols) y = draw_losses(y, s, 150);
    }
    return draw_list(y);
  }

 private:
  int variant_of(int range) const { return letters_.at(kernel_.ranges[static_cast<std::size_t>(range)].best.candidate); }
  const char* colour_of(int range) const { return kColours[static_cast<std::size_t>(variant_of(range)) % std::size(kColours)]; }
  std::string letter_of(int range) const {
    const int variant = variant_of(range);
    return variant < 26 ? std::string(1, static_cast<char>('A' + variant)) : std::to_string(variant);
  }
  static double value_of(const MeasuredShape& shape, const Symbol& s) { return static_cast<double>(shape.values.at(s.name)); }
  static std::string describe(const MeasuredShape& shape) {
    std::string text;
    for (const auto& [name, value] : shape.values) text += fmt::format("{}={} ", name, value);
    return text + fmt::format("{}, default {}, loss {:.1f} %{}", format_time(shape.served_ns), format_time(shape.default_ns), 100 * shape.loss(),
                              shape.held_out ? ", held out" : "");
  }
  static const SymbolGuard* find_guard(const Guard& guard, const std::string& name) {
    const auto at = std::find_if(guard.symbols.begin(), guard.symbols.end(), [&](const SymbolGuard& s) { return s.name == name; });
    return at == guard.symbols.end() ? nullptr : &*at;
  }

  double draw_title(double y) {
    svg_.text(kLeft, y + 18, fmt::format("Kernel {}: {} {}", kernel_.kernel, kernel_.family, shorten_digest(kernel_.workload)), 16, Svg::Anchor::start, "#111", true);
    double mean = 0, count = 0, worst = 0;
    for (const db::BestEntry& e : kernel_.ranges) {
      mean += e.best.mean_loss * static_cast<double>(e.best.held_out_probes);
      count += static_cast<double>(e.best.held_out_probes);
      worst = std::max(worst, e.best.worst_loss);
    }
    std::string line = fmt::format("{} · {}", kernel_.ranges.front().device_model, kernel_.ranges.front().policy_name);
    if (count > 0) line += fmt::format(" · loss at {:.0f} held-out shapes: mean {:.1f} %, worst {:.1f} %", count, 100 * mean / count, 100 * worst);
    svg_.text(kLeft, y + 38, line, 12, Svg::Anchor::start, "#444");
    return y + 52;
  }

  // ------------------------------------------------------------ axes

  void draw_x_axis(const Panel& p, const Symbol& s, bool labelled) {
    const Scale x = scale_of(s, p.x, p.x + p.width);
    for (const std::int64_t tick : list_ticks(s, p.width, 44)) {
      const double at = x.at(static_cast<double>(tick));
      svg_.line(at, p.y, at, p.bottom(), kGrid);
      if (labelled) svg_.text(at, p.bottom() + 16, std::to_string(tick), 11, Svg::Anchor::middle, kAxis);
    }
    if (labelled) svg_.text(p.x + p.width / 2, p.bottom() + 34, s.name + " (logarithmic)", 12, Svg::Anchor::middle);
  }
  void draw_frame(const Panel& p) { svg_.rect(p.x, p.y, p.width, p.height, "none", 1, kAxis); }

  /// Strips over a panel, one for each range with its letter, and borders through the panel.
  void draw_ranges(const Panel& p, const Symbol& s) {
    const Scale x = scale_of(s, p.x, p.x + p.width);
    for (std::size_t i = 0; i < kernel_.ranges.size(); ++i) {
      const Guard& guard = kernel_.ranges[i].range.guard;
      const SymbolGuard* g = find_guard(guard, s.name);
      const double lo = static_cast<double>(g ? g->lo : s.lo), hi = static_cast<double>(g ? std::min(g->hi, s.hi) : s.hi);
      const bool over = guard.alignment_bytes > 1 || (g != nullptr && g->multiple_of > 1);
      const double from = x.at(lo), to = hi >= static_cast<double>(s.hi) ? p.x + p.width : x.at(hi + 1);
      const double strip = over ? p.y - 2 * kBand : p.y - kBand;
      svg_.rect(from, strip, std::max(1.0, to - from), kBand - 2, colour_of(static_cast<int>(i)), over ? 0.5 : 0.85);
      if (to - from > 14) svg_.text((from + to) / 2, strip + 14, letter_of(static_cast<int>(i)), 12, Svg::Anchor::middle, "#ffffff", true, guard.text());
      if (!over && lo > static_cast<double>(s.lo)) svg_.line(from, p.y, from, p.bottom(), kBorder, 1.2, "5 3");
    }
  }
  bool has_over() const {
    return std::any_of(kernel_.ranges.begin(), kernel_.ranges.end(), [](const db::BestEntry& e) {
      const Guard& g = e.range.guard;
      return g.alignment_bytes > 1 || std::any_of(g.symbols.begin(), g.symbols.end(), [](const SymbolGuard& s) { return s.multiple_of > 1; });
    });
  }

  // ------------------------------------------------------------ panels

  double draw_curves(double top) {
    const Symbol& s = kernel_.symbols.front();
    const Panel p{kLeft, top + 22 + kBand + (has_over() ? kBand : 0), svg_.width() - kLeft - kRight, 260};
    draw_key(p.x, top + 6);
    double lo = 1e30, hi = 0;
    for (const MeasuredShape& m : shapes_) {
      for (const double ns : {m.served_ns, m.default_ns, m.best_ns}) {
        if (ns > 0) lo = std::min(lo, ns), hi = std::max(hi, ns);
      }
      for (const double ns : m.others_ns) hi = std::max(hi, ns);
    }
    if (hi == 0) lo = 1, hi = 10;
    const Scale x = scale_of(s, p.x, p.x + p.width), y{lo / 1.25, hi * 1.25, p.bottom(), p.y};
    draw_x_axis(p, s, false);
    for (const double tick : list_time_ticks(y.lo, y.hi)) {
      svg_.line(p.x, y.at(tick), p.x + p.width, y.at(tick), kGrid);
      svg_.text(p.x - 8, y.at(tick) + 4, format_time(tick), 11, Svg::Anchor::end, kAxis);
    }
    svg_.text_upwards(20, p.y + p.height / 2, "time of a launch (logarithmic)");
    std::string served, base;
    for (const MeasuredShape& m : shapes_) {
      const double at = x.at(value_of(m, s));
      for (const double ns : m.others_ns) svg_.circle(at, y.at(ns), 1.8, kOther, kOther);
      served += fmt::format("{:.1f},{:.1f} ", at, y.at(m.served_ns));
      if (m.default_ns > 0) base += fmt::format("{:.1f},{:.1f} ", at, y.at(m.default_ns));
    }
    svg_.polyline(base, "#555555", 1.6, "6 4");
    svg_.polyline(served, "#111111", 1.6);
    for (const MeasuredShape& m : shapes_) svg_.circle(x.at(value_of(m, s)), y.at(m.served_ns), 3.4, colour_of(m.range), m.held_out ? "#ffffff" : colour_of(m.range), describe(m));
    draw_ranges(p, s);
    draw_frame(p);
    return draw_losses(p.bottom() + 14, s, 150);
  }

  void draw_key(double x, double y) {
    svg_.line(x, y - 4, x + 26, y - 4, "#111111", 1.6);
    svg_.text(x + 32, y, "served", 11);
    svg_.line(x + 92, y - 4, x + 118, y - 4, "#555555", 1.6, "6 4");
    svg_.text(x + 124, y, "default schedule", 11);
    svg_.circle(x + 246, y - 4, 1.8, kOther, kOther);
    svg_.text(x + 254, y, "other finalists", 11);
    svg_.circle(x + 352, y - 4, 3.4, "#111111", "#ffffff");
    svg_.text(x + 362, y, "held out of the decision", 11);
    svg_.line(x + 520, y - 4, x + 546, y - 4, kBorder, 1.2, "5 3");
    svg_.text(x + 552, y, "border of a range", 11);
  }

  double draw_losses(double top, const Symbol& s, double height) {
    const bool alone = kernel_.symbols.size() > 1;
    const Panel p{kLeft, alone ? top + 16 + kBand : top, svg_.width() - kLeft - kRight, height};
    double most = kBadLoss;
    for (const MeasuredShape& m : shapes_) most = std::max(most, m.loss());
    most *= 1.12;
    const auto y = [&](double loss) { return p.bottom() - p.height * loss / most; };
    draw_x_axis(p, s, true);
    const double step = most > 1 ? 0.5 : most > 0.4 ? 0.2 : most > 0.15 ? 0.05 : most > 0.08 ? 0.02 : 0.01;
    for (double tick = 0; tick <= most; tick += step) {
      svg_.line(p.x, y(tick), p.x + p.width, y(tick), kGrid);
      svg_.text(p.x - 8, y(tick) + 4, fmt::format("{:.0f} %", 100 * tick), 11, Svg::Anchor::end, kAxis);
    }
    const Scale x = scale_of(s, p.x, p.x + p.width);
    for (const MeasuredShape& m : shapes_) {
      const double at = x.at(value_of(m, s));
      svg_.line(at, y(0), at, y(m.loss()), colour_of(m.range), 1.6);
      svg_.circle(at, y(m.loss()), 3.4, colour_of(m.range), m.held_out ? "#ffffff" : colour_of(m.range), describe(m));
    }
    if (!alone) draw_borders(p, s);
    draw_frame(p);
    svg_.text_upwards(20, p.y + p.height / 2, "loss against the best");
    return p.bottom() + 52;
  }
  void draw_borders(const Panel& p, const Symbol& s) {
    const Scale x = scale_of(s, p.x, p.x + p.width);
    for (const db::BestEntry& e : kernel_.ranges) {
      const SymbolGuard* g = find_guard(e.range.guard, s.name);
      if (g != nullptr && g->lo > s.lo && g->multiple_of == 1) svg_.line(x.at(static_cast<double>(g->lo)), p.y, x.at(static_cast<double>(g->lo)), p.bottom(), kBorder, 1.2, "5 3");
    }
  }

  /// The box of two symbols: ranges as rectangles, shapes as points with what they lose.
  double draw_map(double top) {
    const Symbol &a = kernel_.symbols[0], &b = kernel_.symbols[1];
    const Panel p{kLeft, top + 26, svg_.width() - kLeft - kRight, 380};
    svg_.circle(p.x + 6, top + 6, 3.4, "#111111", "#111111");
    svg_.text(p.x + 16, top + 10, "measured to decide", 11);
    svg_.circle(p.x + 146, top + 6, 3.4, "#111111", "#ffffff");
    svg_.text(p.x + 156, top + 10, "held out of the decision; numbers are losses in percent, from 1 on", 11);
    const Scale x = scale_of(a, p.x, p.x + p.width), y = scale_of(b, p.bottom(), p.y);
    // What lies over others is drawn last, and hatched by being half transparent.
    for (std::size_t i = kernel_.ranges.size(); i-- > 0;) {
      const Guard& guard = kernel_.ranges[i].range.guard;
      const SymbolGuard *ga = find_guard(guard, a.name), *gb = find_guard(guard, b.name);
      if (ga == nullptr || gb == nullptr) continue;
      const auto end_of = [](const Scale& scale, const SymbolGuard& g, const Symbol& s) { return g.hi >= s.hi ? scale.to : scale.at(static_cast<double>(g.hi) + 1); };
      const double x1 = x.at(static_cast<double>(ga->lo)), x2 = end_of(x, *ga, a), y1 = y.at(static_cast<double>(gb->lo)), y2 = end_of(y, *gb, b);
      svg_.rect(x1, y2, std::max(1.0, x2 - x1), std::max(1.0, y1 - y2), colour_of(static_cast<int>(i)), 0.28, kBorder);
      svg_.text(x1 + 8, y2 + 20, letter_of(static_cast<int>(i)), 16, Svg::Anchor::start, "#222", true, guard.text());
    }
    draw_x_axis({p.x, p.bottom(), p.width, 0}, a, true);
    for (const std::int64_t tick : list_ticks(b, p.height, 26)) svg_.text(p.x - 8, y.at(static_cast<double>(tick)) + 4, std::to_string(tick), 11, Svg::Anchor::end, kAxis);
    svg_.text_upwards(20, p.y + p.height / 2, b.name + " (logarithmic)");
    for (const MeasuredShape& m : shapes_) {
      const double at_x = x.at(value_of(m, a)), at_y = y.at(value_of(m, b));
      svg_.circle(at_x, at_y, 3.4, "#111111", m.held_out ? "#ffffff" : "#111111", describe(m));
      if (m.loss() < 0.01) continue;
      const bool at_end = at_x > p.x + p.width - 40;
      svg_.text(at_x + (at_end ? -7 : 7), at_y + (at_y < p.y + 12 ? 13 : -5), fmt::format("{:.0f}", 100 * m.loss()), 11, at_end ? Svg::Anchor::end : Svg::Anchor::start,
                m.loss() > kBadLoss ? "#B00020" : "#222");
    }
    draw_frame(p);
    return p.bottom() + 52;
  }

  // ------------------------------------------------------------ the ranges in words

  double draw_list(double y) {
    const double columns[] = {kLeft, kLeft + 28, kLeft + 500, kLeft + 590, kLeft + 670, kLeft + 750};
    const char* const heads[] = {"", "range", "speed-up", "mean loss", "worst loss", "held out"};
    y += 10;
    for (std::size_t c = 1; c < std::size(heads); ++c) svg_.text(columns[c], y, heads[c], 11, Svg::Anchor::start, "#444", true);
    for (std::size_t i = 0; i < kernel_.ranges.size(); ++i) {
      const db::BestEntry& e = kernel_.ranges[i];
      y += 19;
      draw_letter(columns[0], y, static_cast<int>(i));
      const bool judged = e.best.held_out_probes > 0;
      const std::string state = e.best.state == db::BestState::active ? "" : " (" + std::string(name(e.best.state)) + ")";
      const std::string cells[] = {cut(e.range.guard.text() + state, 76), fmt::format("{:.2f}x", e.best.speedup), judged ? fmt::format("{:.1f} %", 100 * e.best.mean_loss) : "-",
                                   judged ? fmt::format("{:.1f} %", 100 * e.best.worst_loss) : "-", std::to_string(e.best.held_out_probes)};
      for (std::size_t c = 0; c < std::size(cells); ++c) svg_.text(columns[c + 1], y, cells[c], 11, Svg::Anchor::start, "#222");
    }
    y += 30;
    svg_.text(columns[1], y, "schedule", 11, Svg::Anchor::start, "#444", true);
    std::set<int> listed;
    for (std::size_t i = 0; i < kernel_.ranges.size(); ++i) {
      if (!listed.insert(variant_of(static_cast<int>(i))).second) continue;
      y += 19;
      draw_letter(columns[0], y, static_cast<int>(i));
      const std::string schedule = name_schedule(kernel_.ranges[i].candidate);
      svg_.text(columns[1], y, cut(schedule, 122), 11, Svg::Anchor::start, "#222", false, schedule);
    }
    return y + 44;
  }
  void draw_letter(double x, double y, int range) {
    svg_.rect(x, y - 11, 16, 14, colour_of(range), 0.85);
    svg_.text(x + 8, y, letter_of(range), 11, Svg::Anchor::middle, "#ffffff", true);
  }
  static std::string cut(const std::string& text, std::size_t most) { return text.size() <= most ? text : text.substr(0, most - 1) + "…"; }

  Svg& svg_;
  const KernelRanges& kernel_;
  const std::vector<MeasuredShape>& shapes_;
  std::map<db::Digest, int> letters_;  ///< by candidate
};

}  // namespace

double draw_kernel(Svg& svg, double top, const KernelRanges& kernel, const std::vector<MeasuredShape>& shapes) {
  return KernelPlot(svg, kernel, shapes).draw(top);
}

}  // namespace loopwright::cli
