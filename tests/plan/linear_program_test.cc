#include "plan/linear_program.h"

#include <gtest/gtest.h>

namespace lazytrain {
namespace {

// A knapsack of three things, by hand: values 5, 4, 3, weights 2, 3, 1, room for 5: the first two.
LinearProgram Knapsack(std::vector<int>& columns) {
  LinearProgram program;
  LinearSum weight;
  const double weights[] = {2, 3, 1};
  const double values[] = {5, 4, 3};
  for (int i = 0; i < 3; ++i) {
    columns.push_back(program.AddBinary(-values[i]));
    weight.Add(columns.back(), weights[i]);
  }
  program.AddAtMost(weight, 5);
  return program;
}

TEST(LinearProgram, SolvesWithIntegersAndWithout) {
  std::vector<int> columns;
  const LinearProgram program = Knapsack(columns);
  const LinearSolution whole = program.Solve({});
  ASSERT_EQ(whole.status, LinearSolution::Status::kOptimal);
  EXPECT_NEAR(whole.objective, -9, 1e-9);
  EXPECT_NEAR(whole.bound, -9, 1e-6);
  SolveOptions options;
  options.relaxed = true;
  const LinearSolution relaxed = program.Solve(options);
  // The first and the last, and two thirds of the second.
  EXPECT_NEAR(relaxed.objective, -5 - 3 - 4 * 2.0 / 3, 1e-9);
  EXPECT_NEAR(relaxed.values[columns[1]], 2.0 / 3, 1e-9);
  ASSERT_EQ(relaxed.duals.size(), 1u);
  EXPECT_NEAR(relaxed.duals[0], -4.0 / 3, 1e-9);
}

TEST(LinearProgram, ConstantsMoveOverAndSumsAddUp) {
  LinearProgram program;
  const int x = program.AddColumn(0, kInfinity, 1);
  LinearSum sum(2.0);
  sum.Add(x, 1).Add(x, 1);
  program.AddAtLeast(sum, 10);
  LinearSum objective(100.0);
  program.Minimise(objective.Add(x, 1));
  const LinearSolution solution = program.Solve({});
  EXPECT_NEAR(solution.values[x], 4, 1e-9);
  EXPECT_NEAR(solution.objective, 100 + 2 * 4, 1e-9);
  EXPECT_NEAR(solution.Value(sum * 3), 30, 1e-9);
}

TEST(LinearProgram, SaysWhatCannotBe) {
  LinearProgram program;
  const int x = program.AddBinary();
  program.AddAtLeast(LinearSum().Add(x), 2);
  EXPECT_EQ(program.Solve({}).status, LinearSolution::Status::kInfeasible);
}

}  // namespace
}  // namespace lazytrain
