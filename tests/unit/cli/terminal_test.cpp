// What a person sees on a terminal: narrow, low, dumb, and made smaller while a run goes on.
#include <sys/ioctl.h>

#include <cstdlib>
#include <sstream>

#include "src/cli/output.h"
#include "src/cli/progress.h"
#include "tests/unit/cli/program.h"

namespace loopwright::cli {
namespace {

/// A terminal whose other end is the test.
class Terminal {
 public:
  Terminal(int columns, int rows) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
    resize(columns, rows);
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::string name() const { return ::ptsname(master_); }
  int descriptor() const { return slave_; }
  void resize(int columns, int rows) const {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    EXPECT_EQ(::ioctl(slave_, TIOCSWINSZ, &size), 0);
  }
  /// What was written to it since the last time.
  std::string read() const {
    std::string text;
    char part[4096];
    for (ssize_t n = 0; (n = ::read(master_, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
    return text;
  }

 private:
  int master_ = -1, slave_ = -1;
};

/// Standard error is the terminal while it lives.
class OnStderr {
 public:
  explicit OnStderr(const Terminal& terminal) : saved_(::dup(STDERR_FILENO)) { ::dup2(terminal.descriptor(), STDERR_FILENO); }
  ~OnStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }
  OnStderr(const OnStderr&) = delete;
  OnStderr& operator=(const OnStderr&) = delete;

 private:
  int saved_;
};

/// Lines without what moves the cursor.
std::vector<std::string> lines_of(const std::string& written) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] == '\033') i = written.find_first_of("AK", i);
    else if (written[i] == '\n') lines.emplace_back();
    else if (written[i] != '\r') lines.back() += written[i];
  }
  lines.pop_back();
  return lines;
}

TuneProgress make_progress() {
  return {.workload = "row_reduction e7b63e0b6b8d", .workload_count = 1, .trials = 3, .outcomes = {{Outcome::ok, 3}}, .default_ns = 2e6,
          .best_ns = 1e6, .best_label = "row_reduction keep_row=1 accumulators=4", .elapsed_s = 10, .left_s = 50, .phase = "search"};
}

TEST(ProgressOnATerminal, NoLineIsLongerThanTheTerminalAndTheClockIsSeen) {
  for (const int columns : {3, 10, 20, 30, 40, 60, 200}) {
    const Terminal terminal(columns, 24);
    const OnStderr on(terminal);
    ProgressView view(ProgressView::Mode::live);
    view.update(make_progress());
    const std::string written = terminal.read();
    const auto lines = lines_of(written);
    EXPECT_EQ(lines.size(), 4u) << columns;
    for (const std::string& line : lines) EXPECT_LT(static_cast<int>(line.size()), columns) << line;
    EXPECT_EQ(written.find("0:10 gone, 0:50 left") != std::string::npos, columns >= 30) << columns << written;
    EXPECT_EQ(written.find("[##") != std::string::npos, columns >= 60) << columns << written;
  }
}

TEST(ProgressOnATerminal, ALowOneKeepsWhatStandsAboveTheView) {
  const Terminal terminal(80, 3);
  const OnStderr on(terminal);
  ProgressView view(ProgressView::Mode::live);
  view.update(make_progress());
  EXPECT_EQ(lines_of(terminal.read()).size(), 2u) << "and the cursor below";
  view.update(make_progress());
  EXPECT_EQ(terminal.read().rfind("\033[2A", 0), 0u);
}

TEST(ProgressOnATerminal, ANarrowerOneGetsANewFrameBelowTheBrokenOne) {
  const Terminal terminal(100, 24);
  const OnStderr on(terminal);
  ProgressView view(ProgressView::Mode::live);
  view.update(make_progress());
  view.update(make_progress());
  EXPECT_NE(terminal.read().find("\033[4A"), std::string::npos) << "over the frame before";
  terminal.resize(30, 24);
  view.update(make_progress());
  EXPECT_EQ(terminal.read().find("A\r"), std::string::npos) << "how many lines the last frame has now is not known";
  view.update(make_progress());
  EXPECT_EQ(terminal.read().rfind("\033[4A", 0), 0u);
  terminal.resize(100, 24);
  view.update(make_progress());
  EXPECT_EQ(terminal.read().rfind("\033[4A", 0), 0u) << "a wider one breaks nothing";
}

TEST(ProgressOnATerminal, OneThatCannotMoveItsCursorGetsLines) {
  const Terminal terminal(80, 24);
  const OnStderr on(terminal);
  const char* was = std::getenv("TERM");
  const std::string before = was == nullptr ? "" : was;
  for (const char* kind : {"dumb", ""}) {
    ::setenv("TERM", kind, 1);
    EXPECT_EQ(ProgressView::choose(false, false), ProgressView::Mode::plain) << kind;
  }
  ::unsetenv("TERM");
  EXPECT_EQ(ProgressView::choose(false, false), ProgressView::Mode::plain);
  ::setenv("TERM", "xterm", 1);
  EXPECT_EQ(ProgressView::choose(false, false), ProgressView::Mode::live);
  EXPECT_EQ(ProgressView::choose(false, true), ProgressView::Mode::plain);
  EXPECT_EQ(ProgressView::choose(true, false), ProgressView::Mode::json);
  ::setenv("TERM", before.c_str(), 1);
}

TEST(TableOnATerminal, WithoutRoomForItsColumnsListsCells) {
  Table table({"workload", "family", "default", "best", "ratio", "ok/all", "ranges", "loss"});
  for (const char* name : {"first", "second"})
    table.add({name, "row_reduction", time_cell(123456), time_cell(10000), ratio_cell(12.3), "12000/12345", count_cell(12), percent_cell(0.1)});
  const std::string wide = table.text(80), narrow = table.text(20);
  EXPECT_EQ(std::count(wide.begin(), wide.end(), '\n'), 3);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 20u) << line;
  EXPECT_NE(narrow.find("workload first\n"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("ratio    12.30x\n"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("family   row_reduct~\n"), std::string::npos) << narrow;
}

TEST(TableOnATerminal, TextOfAFileDoesNotMoveTheCursor) {
  Table table({"command"});
  table.add({"tune \033[2J\nx.lw"});
  EXPECT_EQ(table.text(0), "command\ntune ?[2J?x.lw\n");
  EXPECT_EQ(table.to_json()[0].at("command"), "tune \033[2J\nx.lw") << "programs get what there is";
}

}  // namespace
}  // namespace loopwright::cli
