// The worker process and its judgement, with real machine code.
#include "tuner/measure.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "loopwright/runtime.h"
#include "src/driver/build.h"
#include "tuner/doubt.h"
#include "tuner/fault_device.h"
#include "tuner/probes.h"

namespace loopwright::tuner {
namespace {

struct Fixture {
  graph::Workload workload;
  driver::Job job;
  std::shared_ptr<const Artifact> reference;
  std::unique_ptr<WorkerDevice> device;
  Bindings main;

  explicit Fixture(const Graph& graph)
      : workload(graph::make_workload(graph)), job(*driver::make_job(workload)),
        reference(std::make_shared<Artifact>(*driver::build_reference(job, host_target()))) {
    auto started = WorkerDevice::start(LOOPWRIGHT_BIN_DIR "/loopwright-worker", host_target(), {.rotate_bytes = 1 << 20});
    EXPECT_TRUE(started.ok()) << started.error().message();
    device = std::move(*started);
    const ProbePlan probes = plan_probes(workload.graph.symbols(), {});
    main = probes.search.front();
    EXPECT_TRUE(device->open({.workload = workload.digest, .graph = &workload.graph, .naive = &job.naive,
                              .reference = reference, .doubt = *build_doubt(workload.graph, host_target()),
                              .verify_probes = probes.verify}).ok());
  }
  Candidate build(const std::string& name) const { return build(name, job); }
  static Candidate build(const std::string& name, const driver::Job& job) {
    Space space;
    const auto templates = driver::templates_for(job, host_target());
    const auto scheduled = driver::run_template(job, *templates.back(), space, host_target());
    EXPECT_TRUE(scheduled.ok());
    auto artifact = driver::build(*scheduled, host_target());
    EXPECT_TRUE(artifact.ok()) << artifact.error().message();
    return {.digest = name, .template_name = scheduled->template_name, .picks = scheduled->picks,
            .artifact = std::make_shared<Artifact>(std::move(*artifact))};
  }
};

Graph make_graph() {
  Graph g("silu_sum");
  const Dim n = *g.symbol("n", 1, 1024);
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {n, 33}});
  const Value y = *g.silu(x);
  EXPECT_TRUE(g.output("y", y).ok());
  EXPECT_TRUE(g.output("s", *g.reduce("sum", y, {1}, false)).ok());
  return g;
}

TEST(Measure, AGoodCandidatePassesAllCasesAndIsTimed) {
  Fixture f(make_graph());
  const Candidate c = f.build("good");
  const Verdict v = f.device->verify(c);
  EXPECT_EQ(v.outcome, Outcome::ok) << v.detail;
  EXPECT_GE(v.cases.size(), 4u);
  EXPECT_EQ(v.cases.front().probe.at("n"), 1);
  for (const CaseResult& r : v.cases) {
    EXPECT_TRUE(r.passed);
    EXPECT_LT(r.max_rel_error, 1e-5);
  }
  const Samples s = f.device->time(c, f.main, 5, 1e18);
  EXPECT_EQ(s.outcome, Outcome::ok) << s.detail;
  EXPECT_EQ(s.ns.size(), 5u);
  for (const double ns : s.ns) EXPECT_GT(ns, 0);
}

/// Whether exp(x) > 1; the wrong one says no for fewer than a thousandth of the elements, far from the edge.
Graph make_flags(bool wrong) {
  Graph g("flags");
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {100000}});
  const auto number = [&](double v) { return *g.constant(v, DType::f32); };
  Value flag = *g.binary("gt", *g.unary("exp", x), number(1));
  if (wrong) flag = *g.binary("and", flag, *g.binary("or", *g.binary("lt", x, number(0.5)), *g.binary("gt", x, number(0.5005))));
  EXPECT_TRUE(g.output("flag", flag).ok());
  return g;
}

TEST(Measure, AFewWrongDecisionsWithAWideMarginAreFound) {
  Fixture f(make_flags(false));
  const Verdict good = f.device->verify(f.build("good"));
  EXPECT_EQ(good.outcome, Outcome::ok) << good.detail;
  const Verdict bad = f.device->verify(Fixture::build("bad", *driver::make_job(graph::make_workload(make_flags(true)))));
  EXPECT_EQ(bad.outcome, Outcome::wrong_result);
}

TEST(Measure, ResultsBelowTheSmallestNormalNumberPass) {
  Graph g("tiny");
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {64, 64}});
  EXPECT_TRUE(g.output("y", *g.unary("exp", *g.binary("sub", x, *g.constant(120, DType::f32)))).ok());
  EXPECT_TRUE(g.output("p", *g.reduce("product", x, {1}, false)).ok());
  Fixture f(g);
  const Verdict v = f.device->verify(f.build("good"));
  EXPECT_EQ(v.outcome, Outcome::ok) << v.detail;
}

TEST(Measure, EveryFaultIsToldApartAndTheNextCandidateIsUnharmed) {
  Fixture f(make_graph());
  Candidate c = f.build("good");
  ASSERT_EQ(f.device->verify(c).outcome, Outcome::ok);
  f.device->set_default_time(1e5);
  const std::pair<const char*, Outcome> faults[] = {{"hang", Outcome::timeout},
                                                    {"crash", Outcome::crash},
                                                    {"out_of_bounds", Outcome::out_of_bounds},
                                                    {"wrong_result", Outcome::wrong_result},
                                                    {"nondeterministic", Outcome::nondeterministic}};
  for (const auto& [kind, outcome] : faults) {
    Candidate bad = c;
    bad.digest = std::string("bad ") + kind;
    f.device->order_fault(bad.digest, {kind});
    const Verdict v = f.device->verify(bad);
    EXPECT_EQ(v.outcome, outcome) << kind << ": " << v.detail;
    EXPECT_FALSE(v.detail.empty());
    Candidate again = c;
    again.digest = std::string("good after ") + kind;
    const Verdict after = f.device->verify(again);
    EXPECT_EQ(after.outcome, Outcome::ok) << kind << ": " << after.detail;
  }
}

TEST(Measure, AWriteJustBeyondAnExactBufferHitsTheForbiddenPage) {
  Fixture f(make_graph());
  Candidate c = f.build("over the end");
  // Tell the code that the output has one more row than its memory: the last row is written beyond the page.
  auto artifact = std::make_shared<Artifact>(*c.artifact);
  for (Launch& launch : artifact->launches) {
    auto& cpu = std::get<CpuLaunch>(launch);
    if (!cpu.extent.is_constant()) cpu.extent = SizeExpr::apply(SizeExpr::Op::add, cpu.extent, 1);
  }
  if (*artifact == *c.artifact) GTEST_SKIP() << "the general schedule has no parallel loop over the symbol";
  c.artifact = artifact;
  const Verdict v = f.device->verify(c);
  EXPECT_TRUE(v.outcome == Outcome::out_of_bounds || v.outcome == Outcome::crash) << v.detail;
}

TEST(Measure, DamagedCodeIsACrashOrWrongAndNotTheEndOfTheTuner) {
  Fixture f(make_graph());
  Candidate c = f.build("damaged");
  auto artifact = std::make_shared<Artifact>(*c.artifact);
  for (std::size_t i = 0; i < artifact->image.size(); ++i) artifact->image[i] = 0x0f;  // no instruction begins so twice
  c.artifact = artifact;
  const Verdict v = f.device->verify(c);
  EXPECT_NE(v.outcome, Outcome::ok);
  EXPECT_EQ(f.device->verify(f.build("good")).outcome, Outcome::ok);
}

TEST(Measure, TheWorkerDiesWithAKillAndIsReplaced) {
  auto worker = Worker::start(LOOPWRIGHT_BIN_DIR "/loopwright-worker", 1ull << 30);
  ASSERT_TRUE(worker.ok()) << worker.error().message();
  ::kill((*worker)->pid(), SIGKILL);
  const Reply reply = (*worker)->call("{\"command\":\"unload\",\"kernel\":1}", 5000);
  EXPECT_EQ(reply.answer, Answer::died);
  EXPECT_FALSE((*worker)->is_alive());
  ASSERT_TRUE((*worker)->respawn().ok());
  EXPECT_EQ((*worker)->call("{\"command\":\"unload\",\"kernel\":1}", 5000).answer, Answer::reply);
  EXPECT_EQ((*worker)->call("no json", 5000).answer, Answer::reply) << "an unreadable command is answered, not fatal";
}

TEST(Measure, AMissingWorkerIsNamed) {
  const auto found = find_worker("no/such/worker");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::not_found);
  EXPECT_NE(found.error().message().find("no/such/worker"), std::string::npos);
}

TEST(Measure, AProgramThatIsNoWorkerIsToldApartAndWhatWorksIsSaid) {
  const auto worker = Worker::start("/bin/true", 1ull << 30);
  ASSERT_FALSE(worker.ok());
  EXPECT_FALSE(worker.error().works.empty());
}

TEST(FaultDevice, KindsAreParsedAndDefaultsAreSpared) {
  EXPECT_EQ(parse_fault_kinds("cpu+faults")->size(), 6u);
  EXPECT_EQ(*parse_fault_kinds("cpu+faults:hang,crash"), (std::vector<std::string>{"hang", "crash"}));
  EXPECT_FALSE(parse_fault_kinds("cpu+faults:sloth").ok());
  EXPECT_EQ(FaultDevice::draw_fault(std::string(64, '0'), true, {"hang"}), "");
  EXPECT_EQ(FaultDevice::draw_fault(std::string(64, '0'), false, {"hang"}), "hang");
}

}  // namespace
}  // namespace loopwright::tuner
