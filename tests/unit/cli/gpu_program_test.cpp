// Commands on a GPU, with the fake driver and the fake NVRTC: every kernel that is compiled is `doubles`, or what
// LOOPWRIGHT_FAKE_KERNEL names.
#include <chrono>
#include <cstdlib>

#include "tests/unit/cli/program.h"
#include "tuner/gpu_lock.h"

namespace loopwright::cli {
namespace {

class GpuProgram : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    set("LOOPWRIGHT_LIBCUDA", LOOPWRIGHT_FAKE_CUDA_LIBRARY);
    set("LOOPWRIGHT_LIBNVRTC", LOOPWRIGHT_FAKE_NVRTC_LIBRARY);
    set("LOOPWRIGHT_FAKE_CUDA", "devices=2");
    set("XDG_RUNTIME_DIR", folder_.string());  // of the GPU's lock: tests run side by side and all have the same GPUs
  }
  void TearDown() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
    Program::TearDown();
  }
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::string twice() const {
    return write("twice.lw", "graph twice\nsymbol n in 1..2000\ninput x: f32[n]\ny = add(x, x)\noutput y\n");
  }
  std::string tuned(const std::string& name, const std::string& device) const {
    const Ended e = run({"tune", twice(), "--device", device, "--db", file(name), "--budget", "30s", "--max-trials", "4"});
    EXPECT_EQ(e.exit, 0) << e.err;
    return file(name);
  }
  /// What another machine would have: no code, nothing verified.
  std::string imported(const std::string& from, const std::string& name) const {
    write(name + ".jsonl", run({"db", "export", from}).out);
    EXPECT_EQ(run({"db", "import", file(name), file(name + ".jsonl")}).exit, 0);
    return file(name);
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(GpuProgram, RunComparesWhatTheDeviceWroteWithFloat64) {
  const Ended good = run({"run", twice(), "--device", "cuda:1", "--symbol", "n=1001"});
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_EQ(good.out,
            "twice n=1001: 1 kernel on cuda:1 (Fake GPU)\n"
            "output  max abs error  max rel error  verdict  tolerance\n"
            "y                   0              0  ok       rel 3.58e-07 of |ref| + rms, and 7.1e-38\n");
  set("LOOPWRIGHT_FAKE_KERNEL", "triples");
  const Ended wrong = run({"--json", "run", twice(), "--device", "cuda:1"});
  EXPECT_EQ(wrong.exit, 6);
  const json document = json::parse(wrong.out);
  EXPECT_EQ(document.at("device"), "cuda:1");
  EXPECT_FALSE(document.at("outputs")[0].at("passed"));
  EXPECT_NE(document.at("outputs")[0].at("detail").get<std::string>().find("64 elements outside"), std::string::npos);
}

TEST_F(GpuProgram, RunSaysWhatTheDriverSaysOfAKernelThatFails) {
  set("LOOPWRIGHT_FAKE_KERNEL", "illegal_address");
  const Ended e = run({"run", twice(), "--device", "cuda"});
  EXPECT_EQ(e.exit, 6);
  EXPECT_NE(e.err.find("ILLEGAL_ADDRESS"), std::string::npos) << e.err;
}

TEST_F(GpuProgram, WhatDoesNotFitTheDeviceIsAnErrorInFourParts) {
  set("LOOPWRIGHT_FAKE_CUDA", "memory=4096");
  const Ended e = run({"--json", "run", twice(), "--device", "cuda", "--symbol", "n=2000"});
  EXPECT_EQ(e.exit, 6);
  const json error = json::parse(e.err).at("error");
  EXPECT_EQ(error.at("code"), "out_of_memory");
  for (const char* part : {"asked", "found", "where", "works"}) EXPECT_NE(error.at(part), "") << part;
}

TEST_F(GpuProgram, ADeviceThatIsNotThereIsWrongInput) {
  for (const char* command : {"run", "bench"}) {
    const Ended third = run({command, twice(), "--device", "cuda:2"});
    EXPECT_EQ(third.exit, 1);
    EXPECT_NE(third.err.find("2 devices"), std::string::npos) << third.err;
    EXPECT_NE(third.err.find("cuda:0 to cuda:1"), std::string::npos) << third.err;
    EXPECT_EQ(run({command, twice(), "--device", "gpu"}).exit, 1);
  }
  EXPECT_EQ(run({"db", "rebuild", tuned("t.db", "cuda"), "--device", "cuda:2"}).exit, 1);
}

TEST_F(GpuProgram, WithoutADriverItSaysWhereItLooked) {
  set("LOOPWRIGHT_LIBCUDA", file("no_such_library.so"));
  for (const char* command : {"run", "bench"}) {
    const Ended e = run({"--json", command, twice(), "--device", "cuda:0"});
    EXPECT_EQ(e.exit, 1) << command;
    const json error = json::parse(e.err).at("error");
    EXPECT_NE(error.at("asked"), "");
    EXPECT_NE(error.dump().find("no_such_library.so"), std::string::npos) << error;
    EXPECT_NE(error.at("works").get<std::string>().find("LOOPWRIGHT_LIBCUDA"), std::string::npos) << error;
    EXPECT_TRUE(e.out.empty()) << e.out;
  }
}

TEST_F(GpuProgram, WithoutNvrtcOrWithAnOldOneItSaysWhatWouldWork) {
  const auto refuse = [&](const char* words) {
    const Ended e = run({"--json", "run", twice(), "--device", "cuda:0"});
    EXPECT_NE(e.exit, 0) << words;
    const json error = json::parse(e.err).at("error");
    EXPECT_NE(error.dump().find(words), std::string::npos) << error;
    EXPECT_NE(error.at("works"), "") << error;
  };
  set("LOOPWRIGHT_FAKE_NVRTC_VERSION", "11");
  refuse("version 11.0");
  refuse("NVRTC 12.0 or newer");
  set("LOOPWRIGHT_LIBNVRTC", file("no_such_library.so"));
  refuse("no_such_library.so");
  refuse("LOOPWRIGHT_LIBNVRTC");
}

TEST_F(GpuProgram, TuningWithoutItsCompilerSaysSoAndStoresNoTrial) {
  const auto refuse = [&](const char* words) {
    const Ended e = run({"--json", "tune", twice(), "--device", "cuda:0", "--db", file("t.db"), "--budget", "30s", "--max-trials", "4"});
    EXPECT_EQ(e.exit, 1) << e.err;
    const json error = json::parse(e.err).at("error");
    EXPECT_NE(error.dump().find(words), std::string::npos) << error;
    EXPECT_NE(error.at("works"), "") << error;
    EXPECT_EQ(run({"db", "export", file("t.db"), "--with-trials"}).out.find("\"trial\""), std::string::npos);
  };
  set("LOOPWRIGHT_FAKE_NVRTC_VERSION", "11");
  refuse("NVRTC 12.0 or newer");
  set("LOOPWRIGHT_LIBNVRTC", file("no_such_library.so"));
  refuse("no_such_library.so");
  set("LOOPWRIGHT_FAKE_NVRTC_VERSION", "13");
  set("LOOPWRIGHT_LIBNVRTC", LOOPWRIGHT_FAKE_NVRTC_LIBRARY);
  const std::string trials = run({"db", "export", tuned("t.db", "cuda:0"), "--with-trials"}).out;
  EXPECT_NE(trials.find("\"trial\""), std::string::npos) << "nothing is known of it that would keep it from being tuned";
}

TEST_F(GpuProgram, ADriverThatDoesNotDoIsOneExitCodeWhateverIsWrong) {
  for (const char* fake : {"devices=0", "init=100", "init=999", "version=11080"}) {
    set("LOOPWRIGHT_FAKE_CUDA", fake);
    for (const char* command : {"run", "tune"}) EXPECT_EQ(run({command, twice(), "--device", "cuda:0"}).exit, 1) << command << " " << fake;
  }
  set("LOOPWRIGHT_LIBCUDA", "libm.so.6");
  EXPECT_EQ(run({"run", twice(), "--device", "cuda:0"}).exit, 1) << "a library without cuInit";
}

TEST_F(GpuProgram, ADriverOlderThanTheCompilerIsNotedBeforeAnythingIsCompiled) {
  set("LOOPWRIGHT_FAKE_CUDA", "version=12080");
  const std::string database = file("t.db");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"tune", twice(), "--db", database, "--max-trials", "2", "--budget", "20s"}, {"run", twice()},
                                                 {"bench", twice(), "--db", database, "--symbol", "n=7"}, {"db", "rebuild", database}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--device", "cuda:0"});
    for (const auto& [nvrtc, noted] : {std::pair("13", true), std::pair("12", false)}) {
      set("LOOPWRIGHT_FAKE_NVRTC_VERSION", nvrtc);
      const Ended e = run(words);
      EXPECT_EQ(e.exit, 0) << command[0] << e.err;
      EXPECT_EQ(e.err.find("driver is for CUDA 12.8 and the compiler is NVRTC 13.0") != std::string::npos, noted) << command[0] << e.err;
    }
  }
}

TEST_F(GpuProgram, ADeviceHasOneName) {
  const std::string database = tuned("t.db", "cuda:0");
  for (const std::string device : {"cuda:00", "cuda:01", "cuda:0+reused+reused"}) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"tune", twice(), "--db", database}, {"bench", twice(), "--db", database}, {"run", twice()},
                                                   {"db", "rebuild", database}, {"db", "doctor", database, "--canary", "1"}}) {
      std::vector<std::string> words = command;
      words.insert(words.begin(), "--json");
      words.insert(words.end(), {"--device", device});
      const Ended e = run(words);
      EXPECT_EQ(e.exit, 1) << command[0] << " " << device << e.out;
      EXPECT_NE(e.err.find(device), std::string::npos) << e.err;
      EXPECT_NE(e.err.find("cuda:N with N = 0, 1, 2"), std::string::npos) << e.err;
    }
  }
}

TEST_F(GpuProgram, ADeviceThatNeverAnswersEndsTheRunAndBlamesNoCandidate) {
  set("LOOPWRIGHT_FAKE_CUDA", "hanging=1");
  const auto from = std::chrono::steady_clock::now();
  const Ended e = run({"--json", "tune", twice(), "--device", "cuda:0", "--db", file("t.db"), "--budget", "3s"});
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(20));
  EXPECT_EQ(e.exit, 6) << e.out;
  EXPECT_NE(e.err.find("does not answer"), std::string::npos) << e.err;
  EXPECT_EQ(run({"db", "export", file("t.db"), "--with-trials"}).out.find("\"trial\""), std::string::npos);
}

TEST_F(GpuProgram, BenchTimesDefaultAndTunedOnTheDevice) {
  const std::string database = tuned("t.db", "cuda:1");
  for (const char* device : {"cuda:1", "cuda:0+reused"}) {
    const Ended e = run({"--json", "bench", twice(), "--db", database, "--device", device, "--symbol", "n=2000"});
    ASSERT_EQ(e.exit, 0) << e.err;
    const json row = json::parse(e.out).at(0);
    EXPECT_GT(row.at("default_ns"), 0);
    EXPECT_GT(row.at("tuned_ns"), 0);
    EXPECT_TRUE(row.at("passed"));
    EXPECT_EQ(row.at("match"), "exact");
  }
  set("LOOPWRIGHT_FAKE_KERNEL", "never_ends");  // of what is compiled now; the tuned code is in the database
  EXPECT_EQ(run({"run", twice(), "--db", database, "--device", "cuda", "--on-miss", "strict"}).exit, 0);
}

TEST_F(GpuProgram, BenchRefusesAGpuThatATunerMeasuresOn) {
  const std::string database = tuned("t.db", "cuda");
  std::string uuid;
  for (const json& device : json::parse(run({"--json", "devices"}).out))
    if (device.at("device") == "cuda:0") uuid = device.at("uuid");
  const auto lock = tuner::GpuLock::take(uuid);
  ASSERT_TRUE(lock.ok()) << lock.error().message();
  const Ended e = run({"bench", twice(), "--db", database, "--device", "cuda"});
  EXPECT_EQ(e.exit, 5) << e.out;
  EXPECT_NE(e.err.find(uuid), std::string::npos) << e.err;
  EXPECT_EQ(run({"run", twice(), "--db", database, "--device", "cuda"}).exit, 0) << "it measures nothing";
}

TEST_F(GpuProgram, RebuildVerifiesOnTheDeviceThatWasNamed) {
  const std::string theirs = tuned("theirs.db", "cuda");
  const std::string mine = imported(theirs, "mine.db");
  EXPECT_EQ(run({"run", twice(), "--db", mine, "--device", "cuda:1", "--on-miss", "strict"}).exit, 3);
  const Ended elsewhere = run({"--json", "db", "rebuild", mine});
  for (const json& row : json::parse(elsewhere.out)) {
    EXPECT_FALSE(row.at("served"));
    EXPECT_NE(row.at("note").get<std::string>().find("--device cuda"), std::string::npos) << row;
  }
  const Ended e = run({"--json", "db", "rebuild", mine, "--device", "cuda:1"});
  EXPECT_EQ(e.exit, 0) << e.err;
  const json rows = json::parse(e.out);
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) EXPECT_TRUE(row.at("served")) << row;
  EXPECT_EQ(run({"run", twice(), "--db", mine, "--device", "cuda:1", "--on-miss", "strict"}).exit, 0);
  // The run for the CPU left its toolchain in the file, which is not what built this code.
  const json served = json::parse(run({"--json", "lookup", "twice", "--db", mine, "--device", "cuda:1"}).out);
  EXPECT_EQ(served.at(0).at("match"), "exact") << served;
  EXPECT_EQ(run({"db", "rebuild", mine, "--device", "cuda:1"}).out, "every winner has verified code of this machine\n");

  const std::string wrong = imported(theirs, "wrong.db");
  set("LOOPWRIGHT_FAKE_KERNEL", "triples");
  for (const json& row : json::parse(run({"--json", "db", "rebuild", wrong, "--device", "cuda"}).out))
    EXPECT_NE(row.at("note").get<std::string>().find("refused, wrong_result"), std::string::npos) << row;
}

TEST_F(GpuProgram, RebuildWithoutAGpuCompilesAndSaysThatNothingWasVerified) {
  const std::string mine = imported(tuned("theirs.db", "cuda"), "mine.db");
  for (const char* none : {"devices=0", "init=100", "version=11080"}) {
    set("LOOPWRIGHT_FAKE_CUDA", none);
    EXPECT_EQ(run({"db", "rebuild", mine, "--device", "cuda"}).exit, 2) << none;
    EXPECT_EQ(run({"db", "rebuild", mine, "--device", "gpu"}).exit, 1) << none;
  }
  set("LOOPWRIGHT_LIBCUDA", file("no_such_library.so"));
  const std::string before = run({"db", "export", mine}).out;
  const Ended e = run({"--json", "db", "rebuild", mine, "--device", "cuda"});
  EXPECT_EQ(e.exit, 2) << e.err;
  const json rows = json::parse(e.out);
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    EXPECT_FALSE(row.at("served"));
    EXPECT_EQ(row.at("note"), "compiled for cuda:sm_90a, not verified and not stored");
  }
  const std::string note = json::parse(e.err).at("note");
  EXPECT_NE(note.find("nothing was verified"), std::string::npos) << note;
  EXPECT_NE(note.find("no_such_library.so"), std::string::npos) << note;
  EXPECT_EQ(run({"db", "export", mine}).out, before);
  const Ended verified = run({"db", "rebuild", file("theirs.db"), "--device", "cuda"});
  EXPECT_EQ(verified.exit, 0) << "nothing had to be built";
  EXPECT_NE(verified.out.find("every winner has verified code"), std::string::npos) << verified.out;
  EXPECT_EQ(verified.err.find("nothing was verified"), std::string::npos) << verified.err;
  EXPECT_NE(verified.err.find("no_such_library.so"), std::string::npos) << verified.err;
  set("LOOPWRIGHT_LIBNVRTC", file("no_compiler.so"));
  for (const json& row : json::parse(run({"--json", "db", "rebuild", mine, "--device", "cuda"}).out))
    EXPECT_NE(row.at("note").get<std::string>().find("cannot be built"), std::string::npos) << row;
}

}  // namespace
}  // namespace loopwright::cli
