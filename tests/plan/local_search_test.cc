// The search beside the solver, on models small enough for both.
#include "plan/local_search.h"

#include <gtest/gtest.h>

#include "model/model_builder.h"
#include "plan/planner.h"
#include "plan/schedule_score.h"

namespace lazytrain {
namespace {

ModelGraph Model() {
  const Json config = {
      {"model_type", "llama"},           {"vocab_size", 4000},          {"hidden_size", 512},
      {"intermediate_size", 1536},       {"num_hidden_layers", 8},      {"num_attention_heads", 8},
      {"max_position_embeddings", 1024}, {"tie_word_embeddings", false}};
  GraphOptions options;
  options.dtype = DType::kBF16;
  return BuildModelGraph(HubConfig(config, "config.json"), options);
}

struct Case {
  double device_mb;
  double host_mb;
  double link;
  int64_t passes;
  ClipMode clip;
};

constexpr Case kCases[] = {{150, 40, 2e9, 1, ClipMode::kExact},
                           {130, 10, 1e9, 1, ClipMode::kExact},
                           {150, 40, 1e10, 2, ClipMode::kExact},
                           {300, 0, 4e8, 4, ClipMode::kExact},
                           {120, 20, 2e9, 2, ClipMode::kPrevious}};

class LocalSearchTest : public testing::Test {
 protected:
  void Make(const Case& of) {
    capacity_.micro_batches = 8;
    capacity_.micro_batch_tokens = 1024;
    capacity_.longest_document = 512;
    capacity_.documents = 2;
    HardwareRates rates;
    rates.h2d_bytes = rates.d2h_bytes = of.link;
    rates.host_bytes = 4e9;
    rates.gemm_flops = 1e12;
    rates.device_bytes = 1e11;
    rates.host_update = 1e9;
    rates.device_update = 4e9;
    costs_ = MakePlanCosts(model_, capacity_, CostModel(rates), StateBytes());
    problem_ = PlanProblem();
    problem_.model = &model_;
    problem_.costs = &costs_;
    problem_.rates = rates;
    problem_.budget.device_bytes = of.device_mb * 1e6;
    problem_.budget.host_activation_bytes = of.host_mb * 1e6;
    problem_.space.clip = of.clip;
    problem_.capacity = capacity_;
    passes_ = EvenPasses(8, of.passes);
  }

  // Seconds of a schedule, by the solver that has no choice left.
  LinearSolution Exact(const Schedule& schedule) const {
    ScheduleMip fixed(problem_, passes_);
    fixed.Fix(schedule);
    SolveOptions relaxed;
    relaxed.relaxed = true;
    return fixed.program().Solve(relaxed);
  }

  ModelGraph model_ = Model();
  Capacity capacity_;
  PlanCosts costs_;
  PlanProblem problem_;
  std::vector<int64_t> passes_;
};

TEST_F(LocalSearchTest, FindsWhatTheSolverFinds) {
  for (const Case& of : kCases) {
    Make(of);
    const ScheduleMip mip(problem_, passes_);
    SolveOptions options;
    options.relaxed = true;
    const LinearSolution relaxed = mip.program().Solve(options);
    ASSERT_TRUE(relaxed.found()) << of.device_mb;
    options.relaxed = false;
    options.gap = 0.003 * relaxed.objective;
    options.seconds = 60;
    const LinearSolution best = mip.program().Solve(options);
    ASSERT_TRUE(best.found());

    LinearSolution found;
    found.values = LocalSearch(mip).Run(relaxed, 20000);
    ASSERT_FALSE(found.values.empty()) << of.device_mb;
    const LinearSolution exact = Exact(mip.ScheduleOf(found));
    ASSERT_TRUE(exact.found()) << "does not fit: " << of.device_mb;
    EXPECT_LT(exact.objective, 1.01 * best.objective) << of.device_mb << " MB";
    EXPECT_EQ(found.values, LocalSearch(mip).Run(relaxed, 20000)) << "not the same again";
  }
}

// The score says what the solver says, or a little more, and what fits.
TEST_F(LocalSearchTest, ScoresAsTheSolverDoes) {
  int fits = 0;
  for (const Case& of : kCases) {
    Make(of);
    const ScheduleMip mip(problem_, passes_);
    ScheduleScore score(mip);
    std::vector<Schedule> schedules = {ResidentSchedule(model_, capacity_)};
    for (const int64_t interval : {1, 2, 3, 8}) {
      schedules.push_back(IntervalSchedule(model_, capacity_, interval));
    }
    for (Schedule& schedule : schedules) {
      schedule.passes = passes_;
      std::vector<double> columns = mip.ColumnsOf(schedule);
      const ScheduleScore::Score scored = score.Of(columns);
      const LinearSolution exact = Exact(schedule);
      EXPECT_EQ(scored.excess < 1e-9, exact.found()) << schedule.name << ", " << of.device_mb;
      if (!exact.found() || scored.excess >= 1e-9) continue;
      ++fits;
      EXPECT_GT(scored.seconds, exact.objective * (1 - 1e-6)) << schedule.name;
      EXPECT_LT(scored.seconds, exact.objective * 1.03) << schedule.name;
    }
  }
  EXPECT_GT(fits, 5);
}

}  // namespace
}  // namespace lazytrain
