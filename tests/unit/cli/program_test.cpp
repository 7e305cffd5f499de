// The program as a person starts it: exit codes, messages, what goes to which stream.
#include "tests/unit/cli/program.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "db/query.h"
#include "db/record.h"
#include "src/cli/command.h"

namespace loopwright::cli {
namespace {

TEST_F(Program, AnUnknownCommandIsToldWhichThereAre) {
  const Ended e = run({"lokup"});
  EXPECT_EQ(e.exit, 1);
  EXPECT_NE(e.err.find("did you mean `lookup`"), std::string::npos) << e.err;
  EXPECT_NE(e.err.find("tune, resume, run"), std::string::npos) << e.err;
  EXPECT_NE(run({"db", "lst"}).err.find("did you mean `list`"), std::string::npos);
  EXPECT_NE(run({}).err.find("tune, resume, run"), std::string::npos);
  EXPECT_EQ(json::parse(run({"--json", "lokup"}).err).at("error").at("code"), "unknown_name");
}

TEST_F(Program, WhatIsNotOursMovesNoCursor) {
  const Ended e = run({"lok\033[2J\rup"});
  EXPECT_EQ(e.exit, 1);
  EXPECT_NE(e.err.find("lok?[2J?up"), std::string::npos) << e.err;
  const Ended name = run({"explain", "no\033such", "--db", file("none.db")});
  EXPECT_EQ(name.err.find('\033'), std::string::npos) << name.err;
  // In a database: what another machine says of itself.
  const std::string database = file("t.db");
  ASSERT_EQ(run({"tune", small_graph(), "--db", database, "--max-trials", "1", "--budget", "20s"}).exit, 0);
  {
    auto recorder = db::Recorder::open(database, {.create = false});
    db::BestRow best = recorder->read().list_best({})->at(0).best;
    db::DeviceRow device = recorder->read().list_devices()->at(0);
    device.model = "evil \033[2J";
    best.device = *recorder->add_device(device);
    ASSERT_TRUE(recorder->put_best(best).ok());
  }
  const Ended explained = run({"explain", "small", "--db", database});
  EXPECT_NE(explained.out.find("evil ?[2J"), std::string::npos) << explained.out;
  EXPECT_EQ(explained.out.find('\033'), std::string::npos);
}

TEST_F(Program, CountsBelowZeroAreRefused) {
  for (const char* option : {"--jobs", "--max-trials"}) {
    const Ended e = run({"tune", small_graph(), "--db", file("t.db"), std::string(option) + "=-3"});
    EXPECT_EQ(e.exit, 1) << option;
    EXPECT_NE(e.err.find("`-3` is no count"), std::string::npos) << e.err;
    EXPECT_FALSE(fs::exists(file("t.db")));
  }
}

TEST_F(Program, SeedsBelowZeroAreRefused) {
  for (const char* command : {"tune", "run", "bench"}) {
    const Ended e = run({command, small_graph(), "--db", file("t.db"), "--seed", "-1"});
    EXPECT_EQ(e.exit, 1) << command;
    EXPECT_NE(e.err.find("`-1` is no count"), std::string::npos) << e.err;
  }
}

TEST_F(Program, AGraphThatComputesNothingIsRefusedBeforeADatabaseIsMade) {
  const std::string graph = write("none.lw", "graph none\ninput x: f32[4]\ny = exp(x)\n");
  EXPECT_EQ(run({"show", graph}).exit, 0) << "it is a graph";
  for (const auto& words : {std::vector<std::string>{"tune", graph, "--db", file("t.db")}, {"tune", small_graph(), graph, "--db", file("t.db")},
                            {"run", graph, "--db", file("t.db")}, {"bench", graph, "--db", file("t.db")},
                            {"quickstart", graph, "--db", file("t.db")}, {"show", graph, "naive"}}) {
    const Ended e = run(words);
    EXPECT_EQ(e.exit, 1) << words[0];
    EXPECT_NE(e.err.find("neither an output nor an update"), std::string::npos) << words[0] << e.err;
    EXPECT_FALSE(fs::exists(file("t.db"))) << words[0];
  }
}

TEST_F(Program, AFileWithoutAnEndIsRefused) {
  for (const auto& words : {std::vector<std::string>{"show", "/dev/zero"}, {"tune", "/dev/zero", "--db", file("t.db")},
                            {"show", small_graph(), "scheduled", "--trace", "/dev/zero"}, {"db", "import", file("t.db"), "/dev/zero"}}) {
    const Ended e = run(words);
    EXPECT_EQ(e.exit, 1) << words[0] << e.err;
    EXPECT_NE(e.err.find("works: "), std::string::npos) << e.err;
  }
}

TEST_F(Program, AGraphIsReadFromAPipe) {
  const std::string program = LOOPWRIGHT_BIN_DIR "/loopwright";
  const std::string command = "cat '" + small_graph() + "' | '" + program + "' show /dev/stdin naive >'" + file("out") + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read("out").find("exp("), std::string::npos) << read("out");
}

TEST_F(Program, TuneTakesFilesOrWhatIsWanted) {
  EXPECT_EQ(run({"tune"}).exit, 1);
  EXPECT_EQ(run({"tune", "--wanted", small_graph()}).exit, 1);
  EXPECT_EQ(run({"tune", "--wanted", "--db", file("none.db")}).exit, 1) << "nobody can have looked it up there";
  EXPECT_FALSE(fs::exists(file("none.db")));
  ASSERT_EQ(run({"tune", small_graph(), "--db", file("t.db"), "--max-trials", "1", "--budget", "20s"}).exit, 0);
  const Ended none = run({"tune", "--wanted", "--db", file("t.db")});
  EXPECT_EQ(none.exit, 0) << none.err;
  EXPECT_NE(none.out.find("nothing is wanted"), std::string::npos) << none.out;
  const Ended as_json = run({"--json", "tune", "--wanted", "--db", file("t.db")});
  EXPECT_EQ(as_json.exit, 0) << as_json.err;
  EXPECT_TRUE(json::parse(as_json.out).empty()) << as_json.out;
}

TEST_F(Program, NumbersThatNoMachineCanMeetAreRefused) {
  const Ended jobs = run({"tune", small_graph(), "--db", file("t.db"), "--jobs", "100000"});
  EXPECT_EQ(jobs.exit, 1) << jobs.err;
  EXPECT_NE(jobs.err.find("1024"), std::string::npos) << jobs.err;
  for (const char* budget : {"99999999999999999999h", "1e300h", "inf", "0s", "-5s", "nan"}) {
    const Ended e = run({"tune", small_graph(), "--db", file("t.db"), std::string("--budget=") + budget});
    EXPECT_EQ(e.exit, 1) << budget << e.err;
    EXPECT_NE(e.err.find("at most 365d"), std::string::npos) << e.err;
  }
  EXPECT_FALSE(fs::exists(file("t.db")));
}

TEST_F(Program, PruneTakesTheDigestThatTheListShowsAndAnyAge) {
  const std::string database = file("t.db");
  ASSERT_EQ(run({"tune", small_graph(), "--db", database, "--max-trials", "9", "--budget", "20s"}).exit, 0);
  const std::string device = json::parse(run({"--json", "db", "list", database, "devices"}).out).at(0).at("device");
  const auto count = [&](const std::string& asked) {
    const Ended e = run({"--json", "db", "prune", database, "--dry-run", "--trials", "--device", asked});
    EXPECT_EQ(e.exit, 0) << e.err;
    return json::parse(e.out).at("trials").get<int>();
  };
  EXPECT_GT(count(device), 0);
  EXPECT_EQ(count(device.substr(0, 8)), count(device)) << "as `db list` shows it";
  for (const char* wrong : {"zz", ""}) {
    const Ended e = run({"db", "prune", database, "--device", wrong});
    EXPECT_EQ(e.exit, 1) << e.out;
    EXPECT_NE(e.err.find(device.substr(0, 8)), std::string::npos) << e.err;
  }
  EXPECT_EQ(run({"db", "prune", database, "--older-than", "800d"}).exit, 0);
  const Ended age = run({"db", "prune", database, "--older-than", "-3d"});
  EXPECT_EQ(age.exit, 1);
  EXPECT_NE(age.err.find("`-3d`"), std::string::npos) << age.err;
  EXPECT_NE(age.err.find("30d"), std::string::npos) << age.err;
}

TEST_F(Program, ASymbolsValueIsGivenOnceAndAsANumber) {
  const Ended twice = run({"run", small_graph(), "--db", file("none.db"), "--symbol", "n=5", "--symbol", "n=6"});
  EXPECT_EQ(twice.exit, 1);
  EXPECT_NE(twice.err.find("twice"), std::string::npos) << twice.err;
  const Ended large = run({"run", small_graph(), "--db", file("none.db"), "--symbol", "n=99999999999999999999"});
  EXPECT_EQ(large.exit, 1);
  EXPECT_NE(large.err.find("n=99999999999999999999"), std::string::npos) << large.err;
}

TEST_F(Program, ARunOfAnotherFileGoesOnWithoutTheProgramItNames) {
  const std::string worker = file("worker");
  fs::create_symlink(LOOPWRIGHT_BIN_DIR "/loopwright-worker", worker);
  ASSERT_EQ(run({"tune", small_graph(), "--db", file("t.db"), "--max-trials", "1", "--budget", "20s", "--worker", worker}).exit, 0);
  std::string lines = run({"db", "export", file("t.db"), "--with-trials"}).out;
  ASSERT_NE(lines.find(worker), std::string::npos) << "what `resume` needs is in it";
  const std::string state = "\"state\":\"finished\"";
  lines.replace(lines.find(state), state.size(), "\"state\":\"interrupted\"");
  ASSERT_EQ(run({"db", "import", file("other.db"), write("t.jsonl", lines)}).exit, 0);
  fs::remove(worker);
  const Ended e = run({"resume", "--db", file("other.db")});
  EXPECT_EQ(e.exit, 0) << e.err;
}

TEST_F(Program, AnErrorNamesTheOptionAndTheCommandItIsAbout) {
  const Ended shape = run({"--json", "tune", small_graph(), "--db", file("t.db"), "--shapes", "n=999"});
  EXPECT_EQ(shape.exit, 1);
  EXPECT_NE(shape.err.find("\"where\":\"--shapes\""), std::string::npos) << shape.err;
  const Ended symbol = run({"--json", "run", small_graph(), "--db", file("t.db"), "--symbol", "n=999"});
  EXPECT_NE(symbol.err.find("\"where\":\"--symbol\""), std::string::npos) << symbol.err;
  const Ended nested = run({"db", "info", "--no-such-option"});
  EXPECT_NE(nested.err.find("loopwright db info --help"), std::string::npos) << nested.err;
}

TEST_F(Program, OutputThatNothingTakesIsAnError) {
  ASSERT_TRUE(fs::exists("/dev/full"));
  fs::create_symlink("/dev/full", file("out"));
  for (const char* form : {"graph", "assembly"}) {
    const Ended e = run({"--json", "show", small_graph(), form});
    EXPECT_EQ(e.exit, 6) << form;
    EXPECT_EQ(json::parse(e.err).at("error").at("asked"), "write the result") << e.err;
  }
}

TEST_F(Program, AStandardErrorThatTakesNothingEndsNothing) {
  fs::create_symlink("/dev/full", file("err"));
  EXPECT_EQ(run({"lokup"}).exit, 1);
  EXPECT_EQ(run({"--json", "lokup"}).exit, 1);
  EXPECT_EQ(run({"tune", small_graph(), "--db", file("t.db"), "--max-trials", "1"}).exit, 0);
}

TEST_F(Program, ClosedStreamsEndNothingAndGetIntoNoFile) {
  const std::string program = "'" LOOPWRIGHT_BIN_DIR "/loopwright' --json ", database = "'" + file("t.db") + "'";
  const auto run_with = [&](const std::string& words, const std::string& streams) {
    const int status = std::system((program + words + " " + streams).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  };
  // Descriptor 2 would be the lock file's if nothing stood in for the closed stream, and the progress would go into it.
  EXPECT_EQ(run_with("tune '" + small_graph() + "' --db " + database + " --max-trials 3 --budget 20s", ">'" + file("out") + "' 2>&-"), 0);
  EXPECT_EQ(json::parse(read("out")).at(0).at("graph"), "small");
  ASSERT_TRUE(fs::exists(file("t.db.lock")));
  EXPECT_EQ(read("t.db.lock").find("phase"), std::string::npos) << read("t.db.lock");
  EXPECT_EQ(run({"db", "doctor", file("t.db")}).exit, 0) << read("out");
  EXPECT_EQ(run_with("lokup", "2>&-"), 1);
  EXPECT_EQ(run_with("db info " + database, ">&- 2>'" + file("err") + "'"), 6);
  EXPECT_EQ(json::parse(read("err")).at("error").at("where"), "standard output") << read("err");
  EXPECT_EQ(run_with("db info " + database, "<&- >&- 2>&-"), 6);
  EXPECT_EQ(run({"db", "doctor", file("t.db")}).exit, 0) << read("out");
}

TEST_F(Program, AnExportThatNothingTakesIsNoTroubleOfTheDatabase) {
  ASSERT_EQ(run({"tune", small_graph(), "--db", file("t.db"), "--max-trials", "1", "--budget", "20s"}).exit, 0);
  fs::remove(file("out"));
  fs::create_symlink("/dev/full", file("out"));
  const Ended e = run({"--json", "db", "export", file("t.db")});
  EXPECT_EQ(e.exit, 6) << e.err;
  EXPECT_EQ(json::parse(e.err).at("error").at("where"), "standard output") << e.err;
}

TEST_F(Program, MemoryThatIsNotThereIsAnErrorAndJsonWhenAsked) {
  // Room for the program and not for the tensors: the allocation throws.
  const std::string graph = write("large.lw", "graph large\ninput x: f32[20000, 20000]\ny = add(x, x)\noutput y\n");
  const std::string command = "ulimit -v 2000000; '" LOOPWRIGHT_BIN_DIR "/loopwright' --json run '" + graph + "' --db '" + file("none.db") + "' 2>'" +
                              file("err") + "' >'" + file("out") + "'";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 6) << read("err");
  const std::string err = read("err");
  EXPECT_EQ(json::parse(err.substr(err.rfind("{\"error\""))).at("error").at("code"), "out_of_memory") << err;
  EXPECT_TRUE(read("out").empty());
}

TEST_F(Program, BytesThatAreNoUtf8AreStillJson) {
  const std::string graph = write("latin.lw", "graph a # \xff\ninput x: f3\xff" "2[4]\noutput y = sin(x)\n");
  const Ended e = run({"--json", "show", graph});
  EXPECT_EQ(e.exit, 1);
  EXPECT_EQ(json::parse(e.err).at("error").at("code"), "syntax") << e.err;
  EXPECT_EQ(json::parse(run({"--json", "lok\xff"}).err).at("error").at("code"), "unknown_name");
}

TEST_F(Program, AFileAtItsSizeLimitIsAFullDiskAndNoSignal) {
  const std::string program = LOOPWRIGHT_BIN_DIR "/loopwright";
  const std::string command = "ulimit -f 100; '" + program + "' --json tune '" + small_graph() + "' --db '" + file("t.db") +
                              "' --max-trials 2 2>'" + file("err") + "' >'" + file("out") + "'";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4) << read("err");
  const std::string err = read("err");
  EXPECT_EQ(json::parse(err.substr(err.rfind("{\"error\""))).at("error").at("code"), "db_full") << err;
}

TEST_F(Program, ADatabaseThatCannotBeMadeIsExitFour) {
  const Ended e = run({"--json", "tune", small_graph(), "--db", "/proc/x.db", "--max-trials", "1"});
  EXPECT_EQ(e.exit, 4) << e.err;
  const json error = json::parse(e.err).at("error");
  EXPECT_EQ(error.at("code"), "db_read_only");
  EXPECT_EQ(error.at("works").get<std::string>().find("tune --db"), std::string::npos) << error;
  EXPECT_EQ(run({"tune", small_graph(), "--db", file("no_such_folder") + "/x.db", "--max-trials", "1"}).exit, 1) << "a wrong path";
}

TEST_F(Program, ADamagedDatabaseIsExitFourWhoeverReadsIt) {
  const std::string database = write("damaged.db", std::string(4096, 'x'));
  for (const char* command : {"lookup", "explain", "bench"}) {
    const Ended e = run({command, small_graph(), "--db", database});
    EXPECT_EQ(e.exit, 4) << command << e.err;
  }
  EXPECT_EQ(run({"run", small_graph(), "--db", database, "--on-miss", "strict"}).exit, 4);
  EXPECT_EQ(run({"lookup", small_graph(), "--db", file("none.db")}).exit, 1) << "a missing file is wrong input";
}

TEST_F(Program, AFileThatWasChangedSinceItWasTunedIsNotTakenForWhatItWas) {
  const std::string database = file("t.db");
  ASSERT_EQ(run({"tune", small_graph(), "--db", database, "--max-trials", "1", "--budget", "20s"}).exit, 0);
  const std::string head = "graph small\nsymbol n in 1..64\ninput x: f32[n, 8]\n";
  for (const std::string& text : {head + "y = sin(x)\noutput y\n", head + "z = exp(x)\noutput z\n",
                                  head + "symbol m in 1..4\ninput w: f32[m, 8]\ny = exp(x)\nz = exp(w)\noutput y\noutput z\n"}) {
    const std::string changed = write("changed.lw", text);
    for (const char* command : {"bench", "lookup", "explain"}) {
      const Ended e = run({command, changed, "--db", database});
      EXPECT_EQ(e.exit, 1) << command << e.err << e.out;
      EXPECT_NE(e.err.find("another graph"), std::string::npos) << e.err;
    }
  }
  // Two graphs of one name, each with a plan: each is found.
  ASSERT_EQ(run({"tune", file("changed.lw"), "--db", database, "--max-trials", "1", "--budget", "20s"}).exit, 0);
  for (const std::string& graph : {file("changed.lw"), small_graph()}) EXPECT_EQ(run({"bench", graph, "--db", database}).exit, 0) << graph;
  EXPECT_EQ(run({"lookup", "small", "--db", database}).exit, 0) << "a name is a name";
}

TEST_F(Program, AnAccuracyIsPartOfTheGraphAndACpuTunesTheStrictWorkload) {
  const std::string database = file("t.db");
  const std::string product =
      write("product.lw", "graph product\ninput x: f32[32, 16]\ninput w: f32[16, 8]\noutput y = matmul(x, w)\n");
  ASSERT_EQ(run({"tune", product, "--accuracy", "tf32", "--db", database, "--max-trials", "1", "--budget", "20s"}).exit, 0);
  const Ended found = run({"--json", "lookup", product, "--accuracy", "tf32", "--db", database});
  ASSERT_EQ(found.exit, 0) << found.err;
  EXPECT_TRUE(json::parse(found.out)[0].at("tuned")) << found.out;
  EXPECT_NE(found.out.find("[strict]"), std::string::npos) << found.out;
  EXPECT_EQ(run({"lookup", product, "--db", database}).exit, 1) << "the stored plan is of the other class";
  for (const char* accuracy : {"strict", "tf32"}) {
    EXPECT_EQ(run({"run", product, "--accuracy", accuracy, "--db", database, "--on-miss", "strict"}).exit, 0) << accuracy;
    EXPECT_EQ(run({"show", product, "ranges", "--accuracy", accuracy, "--db", database}).exit, 0) << accuracy;
  }
  EXPECT_NE(run({"show", product, "--accuracy", "tf32"}).out.find("graph product\naccuracy tf32\n"), std::string::npos);
  EXPECT_EQ(run({"show", product, "--accuracy", "fast"}).exit, 1);
}

TEST_F(Program, AStoredPlanWithOtherTensorsThanItsGraphIsDamage) {
  const std::string database = file("t.db");
  ASSERT_EQ(run({"tune", small_graph(), "--db", database, "--max-trials", "1", "--budget", "20s"}).exit, 0);
  {
    auto recorder = db::Recorder::open(database, {.create = false});
    ASSERT_TRUE(recorder.ok());
    db::PlanRow plan = *recorder->read().find_plan("small");
    json spec = json::parse(plan.plan_json);
    spec["tensors"][1]["name"] = "not_y";
    plan.plan_json = spec.dump();
    ++plan.created_ns;
    ASSERT_TRUE(recorder->add_plan(plan).ok());
  }
  const Ended e = run({"bench", small_graph(), "--db", database});
  EXPECT_EQ(e.exit, 4) << e.err;
  EXPECT_NE(e.err.find("not_y"), std::string::npos) << e.err;
}

TEST_F(Program, DoctorAndExportDoNotAdviseThemselves) {
  std::string head = "SQLite format 3";
  head.resize(100, '\0');
  const std::string database = write("cut.db", head);
  for (const char* command : {"doctor", "export"}) {
    const Ended e = run({"db", command, database});
    EXPECT_EQ(e.exit, 4) << e.err;
    EXPECT_EQ(e.err.find("loopwright db"), std::string::npos) << e.err;
  }
}

TEST_F(Program, AnUnknownArchitectureIsWrongInput) {
  EXPECT_EQ(run({"show", small_graph(), "source", "--target", "cuda:sm_12"}).exit, 1);
}

TEST_F(Program, PicksThatNobodyAskedForAreRefused) {
  const std::string graph = small_graph();
  const Ended unknown = run({"show", graph, "scheduled", "--picks", "no_such_pick=3"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_NE(unknown.err.find("no template asked for such a pick"), std::string::npos) << unknown.err;
  // A pick that there is, with a value outside its domain.
  const auto at = unknown.err.find("works: picks ");
  ASSERT_NE(at, std::string::npos) << unknown.err;
  const std::string name = unknown.err.substr(at + 13, unknown.err.find_first_of(",\n", at) - at - 13);
  const Ended outside = run({"show", graph, "scheduled", "--picks", name + "=987654321"});
  EXPECT_EQ(outside.exit, 1);
  EXPECT_NE(outside.err.find("not in the pick's domain"), std::string::npos) << outside.err;
}

TEST_F(Program, AGraphLargerThanMemoryIsAnErrorInFourParts) {
  const std::string graph = write("big.lw", "graph big\ninput x: f32[1000000, 1000000]\ny = add(x, x)\noutput y\n");
  const Ended e = run({"--json", "run", graph, "--db", file("none.db")});
  EXPECT_EQ(e.exit, 6);
  const json error = json::parse(e.err.substr(e.err.find("{\"error\""))).at("error");
  EXPECT_EQ(error.at("code"), "out_of_memory");
  EXPECT_NE(error.at("found").get<std::string>().find("this machine has"), std::string::npos) << "before anything was allocated: " << error;
  EXPECT_NE(error.at("works"), "");
}

TEST_F(Program, ASymbolThatNoShapeDeterminesIsGivenByTheOption) {
  const std::string graph = write("free.lw",
                                  "graph free\nsymbol n in 1..16\nsymbol m in 1..16\ninput x: f32[n]\n"
                                  "i = iota(shape=[m], axis=0, dtype=f32)\ns = sum(i)\ny = add(x, s)\noutput y\n");
  const Ended e = run({"run", graph, "--symbol", "m=3", "--symbol", "n=5", "--db", file("none.db")});
  EXPECT_EQ(e.exit, 0) << e.err << e.out;
}

TEST_F(Program, RunNotesADatabaseItCannotRead) {
  const std::string database = write("damaged.db", std::string(4096, 'x'));
  const Ended text = run({"run", small_graph(), "--db", database});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.err.find("damaged.db: not used"), std::string::npos) << text.err;
  const Ended e = run({"--json", "run", small_graph(), "--db", database});
  EXPECT_NE(json::parse(e.err).at("note").get<std::string>().find("not used"), std::string::npos);
  EXPECT_TRUE(json::parse(e.out).at("outputs")[0].at("passed"));
}

TEST_F(Program, JsonIsOneDocumentWithRawNumbersAndWholeDigests) {
  const std::string database = file("t.db");
  const Ended tuned = run({"--json", "tune", small_graph(), "--db", database, "--budget", "20s", "--max-trials", "9"});
  const json reports = json::parse(tuned.out);
  ASSERT_EQ(reports.size(), 1u) << tuned.err;
  EXPECT_EQ(reports[0].at("graph"), "small");
  EXPECT_TRUE(reports[0].at("workloads")[0].at("compared"));
  std::istringstream lines(tuned.err);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(json::parse(line).contains("phase")) << line;
  for (const char* what : {"best", "workloads", "plans", "runs", "devices", "wanted", "trials"}) {
    const Ended e = run({"--json", "db", "list", database, what});
    EXPECT_EQ(e.exit, 0) << what << e.err;
    EXPECT_TRUE(json::parse(e.out).is_array()) << what;
  }
  const json best = json::parse(run({"--json", "db", "list", database}).out)[0];
  EXPECT_TRUE(best.at("median_ns").is_number());
  EXPECT_EQ(best.at("workload").get<std::string>().size(), 64u);
  const Ended looked = run({"--json", "lookup", "small", "--db", database});
  EXPECT_TRUE(json::parse(looked.out).is_array());
  EXPECT_TRUE(json::parse(looked.err).contains("note")) << looked.err;
}

TEST_F(Program, QuickstartGoesOnAfterARunThatWasStopped) {
  const std::vector<std::string> words{"quickstart", small_graph(), "--db", file("t.db"), "--budget", "3s"};
  const std::string nothing = "nothing to tune";
  const pid_t pid = start(words);
  for (int i = 0; i < 1000 && read("err").find("search") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(pid, SIGINT);
  ASSERT_EQ(wait_for(pid).exit, 2) << read("err");
  std::vector<std::string> longer = words;
  longer.back() = "9s";  // a search that comes to its end on a busy machine too
  const Ended second = run(longer);
  EXPECT_EQ(second.exit, 0) << second.err;
  EXPECT_EQ(second.err.find(nothing), std::string::npos) << "its plan and its default are stored, and no more: " << second.err;
  const Ended third = run(words);
  EXPECT_EQ(third.exit, 0) << third.err;
  EXPECT_NE(third.err.find(nothing), std::string::npos) << third.err;
  // What another machine would have: nothing of it is verified here.
  write("t.jsonl", run({"db", "export", file("t.db")}).out);
  ASSERT_EQ(run({"db", "import", file("other.db"), file("t.jsonl")}).exit, 0);
  const Ended other = run({"quickstart", small_graph(), "--db", file("other.db"), "--budget", "3s"});
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_EQ(other.err.find(nothing), std::string::npos) << other.err;
}

TEST(Interrupts, OneThatCameTooLateForTheRunIsTold) {
  EXPECT_FALSE(watch_interrupts());
  EXPECT_FALSE(stop_watching_interrupts());
  EXPECT_FALSE(watch_interrupts());
  ::raise(SIGINT);
  EXPECT_TRUE(stop_watching_interrupts());
}

TEST_F(Program, CtrlCEndsInTheFinalsAndBetweenGraphsToo) {
  const std::string other = write("other.lw", "graph other\ninput x: f32[64, 96]\ny = tanh(x)\noutput y\n");
  const std::string third = write("third.lw", "graph third\ninput x: f32[32, 96]\ny = exp(x)\noutput y\n");
  struct Moment {
    const char* phase;
    int graphs;  ///< begun at that moment
    std::vector<std::string> left;
  };
  for (const Moment& m : {Moment{"finals", 1, {"other", "third"}}, {"ranges", 1, {"other", "third"}}, {"default", 2, {"third"}}}) {
    const std::string database = file(std::string(m.phase) + ".db");
    const pid_t pid = start({"--json", "tune", small_graph(), other, third, "--db", database, "--budget", "12s", "--max-trials", "8"});
    const auto has_come = [&] {
      const std::string err = read("err");
      int begun = 0;
      for (std::size_t at = 0; (at = err.find("\"phase\":\"default\"", at)) != std::string::npos; ++at) ++begun;
      return begun >= m.graphs && err.find("\"phase\":\"" + std::string(m.phase) + "\"") != std::string::npos;
    };
    for (int i = 0; i < 4000 && !has_come(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto from = std::chrono::steady_clock::now();
    ::kill(pid, SIGTERM);
    const Ended e = wait_for(pid);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count(), 1.5) << m.phase;
    ASSERT_EQ(e.exit, 2) << m.phase << e.err;
    const json reports = json::parse(e.out);
    ASSERT_EQ(reports.size(), static_cast<std::size_t>(m.graphs)) << m.phase << e.out;
    EXPECT_EQ(reports.back().at("left").get<std::vector<std::string>>(), m.left) << m.phase;
    EXPECT_EQ(run({"db", "doctor", database}).exit, 0) << m.phase;
    // It goes on, and then with what was left.
    const Ended resumed = run({"--json", "resume", "--db", database});
    EXPECT_EQ(resumed.exit, 0) << m.phase << resumed.err;
    EXPECT_EQ(json::parse(resumed.out).back().at("graph"), "third") << m.phase << resumed.out;
  }
}

TEST_F(Program, ASecondCtrlCEndsAtOnceAndTheRunGoesOnAllTheSame) {
  const std::string database = file("t.db");
  const pid_t pid = start({"tune", small_graph(), "--db", database, "--budget", "12s", "--max-trials", "8"});
  for (int i = 0; i < 2000 && read("err").find("search") == std::string::npos; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(pid, SIGINT);
  ::kill(pid, SIGTERM);
  EXPECT_EQ(wait_for(pid).exit, 130);
  EXPECT_EQ(run({"db", "doctor", database}).exit, 0);
  const Ended resumed = run({"resume", "--db", database});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
}

TEST_F(Program, CtrlCEndsWithinASecondWhateverIsGoingOn) {
  const std::string examples = LOOPWRIGHT_SOURCE_DIR "/examples/";
  int stopped = 0;
  for (const int after_ms : {150, 600, 1500, 3000}) {
    const std::string database = file("t" + std::to_string(after_ms) + ".db");
    const pid_t pid = start({"tune", examples + "transformer.lw", small_graph(), "--db", database, "--budget", "60s"});
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    const auto from = std::chrono::steady_clock::now();
    ::kill(pid, SIGINT);
    const Ended e = wait_for(pid);
    const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    if (e.exit == -SIGINT) continue;  // before it listened
    ++stopped;
    // Half a second is for a machine that runs other tests beside this one.
    EXPECT_LT(took_s, 1.5) << after_ms;
    EXPECT_EQ(e.exit, 2) << e.err;
    EXPECT_NE(e.out.find("loopwright resume"), std::string::npos) << e.out;
  }
  EXPECT_GE(stopped, 2);
}

}  // namespace
}  // namespace loopwright::cli
