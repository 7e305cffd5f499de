// Starts the program and keeps what it writes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

extern char** environ;

namespace loopwright::cli {

namespace fs = std::filesystem;
using nlohmann::json;

struct Ended {
  int exit = -1;
  std::string out, err;
};

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "lw-cli-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  std::string read(const std::string& name) const {
    if (!fs::is_regular_file(file(name))) return {};  // a link to a device, which may have no end
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  pid_t start(const std::vector<std::string>& words) const {
    std::vector<std::string> command{LOOPWRIGHT_BIN_DIR "/loopwright"};
    command.insert(command.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, file("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, file("err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  Ended wait_for(pid_t pid) const {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read("out"), read("err")};
  }
  Ended run(const std::vector<std::string>& words) const { return wait_for(start(words)); }
  std::string small_graph() const {
    return write("small.lw", "graph small\nsymbol n in 1..64\ninput x: f32[n, 8]\ny = exp(x)\noutput y\n");
  }

  fs::path folder_;
};

}  // namespace loopwright::cli
