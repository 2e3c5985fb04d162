#include "plan/linear_program.h"

#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace lazytrain {
namespace {

struct DestroyHighs {
  void operator()(void* highs) const { Highs_destroy(highs); }
};
using HighsHandle = std::unique_ptr<void, DestroyHighs>;

void Check(HighsInt status, const char* what) {
  if (status == kHighsStatusError) throw InternalError("the solver refused: {}", what);
}

LinearSolution::Status StatusOf(void* highs, bool has_solution) {
  switch (Highs_getModelStatus(highs)) {
    case kHighsModelStatusOptimal:
      return LinearSolution::Status::kOptimal;
    case kHighsModelStatusInfeasible:
    case kHighsModelStatusUnboundedOrInfeasible:
      return LinearSolution::Status::kInfeasible;
    case kHighsModelStatusObjectiveBound:
      return LinearSolution::Status::kAbove;
    case kHighsModelStatusTimeLimit:
    case kHighsModelStatusInterrupt:
      return has_solution ? LinearSolution::Status::kFeasible : LinearSolution::Status::kUnknown;
    default:
      return LinearSolution::Status::kUnknown;
  }
}

}  // namespace

LinearSum& LinearSum::operator+=(const LinearSum& other) {
  terms.insert(terms.end(), other.terms.begin(), other.terms.end());
  constant += other.constant;
  return *this;
}

LinearSum LinearSum::operator*(double factor) const {
  LinearSum product(constant * factor);
  for (const auto& [column, value] : terms) product.Add(column, value * factor);
  return product;
}

double LinearSolution::Value(const LinearSum& sum) const {
  double value = sum.constant;
  for (const auto& [column, factor] : sum.terms) value += factor * values[column];
  return value;
}

int LinearProgram::AddColumn(double lower, double upper, double cost, bool integer) {
  lower_.push_back(lower);
  upper_.push_back(upper);
  cost_.push_back(cost);
  integer_.push_back(integer);
  return columns() - 1;
}

int LinearProgram::AddRow(double lower, const LinearSum& sum, double upper) {
  std::vector<std::pair<int, double>> terms = sum.terms;
  std::sort(terms.begin(), terms.end());
  for (size_t i = 0; i < terms.size();) {
    const int column = terms[i].first;
    double factor = 0;
    for (; i < terms.size() && terms[i].first == column; ++i) factor += terms[i].second;
    if (factor == 0) continue;
    entry_column_.push_back(column);
    entry_value_.push_back(factor);
  }
  row_start_.push_back(static_cast<int>(entry_column_.size()));
  row_lower_.push_back(lower - sum.constant);
  row_upper_.push_back(upper - sum.constant);
  return rows() - 1;
}

void LinearProgram::Minimise(const LinearSum& sum) {
  offset_ += sum.constant;
  for (const auto& [column, factor] : sum.terms) cost_[column] += factor;
}

void LinearProgram::SetBounds(int column, double lower, double upper) {
  lower_[column] = lower;
  upper_[column] = upper;
}

LinearSolution LinearProgram::Solve(const SolveOptions& options) const {
  const HighsHandle highs(Highs_create());
  Check(Highs_setBoolOptionValue(highs.get(), "output_flag", 0), "output_flag");
  Check(Highs_setIntOptionValue(highs.get(), "threads", 1), "threads");
  if (options.seconds < kInfinity) {
    Check(Highs_setDoubleOptionValue(highs.get(), "time_limit", options.seconds), "time_limit");
  }
  if (options.relaxed && options.cutoff < kInfinity) {
    Check(Highs_setDoubleOptionValue(highs.get(), "objective_bound", options.cutoff),
          "objective_bound");
  }
  Check(Highs_setDoubleOptionValue(highs.get(), "mip_rel_gap", 0), "mip_rel_gap");
  Check(Highs_setDoubleOptionValue(highs.get(), "mip_abs_gap", std::max(options.gap, 1e-9)),
        "mip_abs_gap");
  std::vector<HighsInt> integrality;
  bool integers = false;
  for (const bool integer : integer_) {
    integrality.push_back(integer && !options.relaxed ? kHighsVarTypeInteger
                                                      : kHighsVarTypeContinuous);
    integers = integers || (integer && !options.relaxed);
  }
  const auto entries = static_cast<HighsInt>(entry_column_.size());
  Check(Highs_passMip(highs.get(), columns(), rows(), entries, kHighsMatrixFormatRowwise,
                      kHighsObjSenseMinimize, offset_, cost_.data(), lower_.data(), upper_.data(),
                      row_lower_.data(), row_upper_.data(), row_start_.data(), entry_column_.data(),
                      entry_value_.data(), integrality.data()),
        "the program");
  if (integers && !options.incumbent.empty()) {
    std::vector<HighsInt> columns_given;
    std::vector<double> values;
    for (int c = 0; c < columns(); ++c) {
      if (!integer_[c]) continue;
      columns_given.push_back(c);
      values.push_back(options.incumbent[c]);
    }
    Check(Highs_setSparseSolution(highs.get(), static_cast<HighsInt>(columns_given.size()),
                                  columns_given.data(), values.data()),
          "the incumbent");
  }
  Check(Highs_run(highs.get()), "to run");

  LinearSolution solution;
  HighsInt primal = 0;
  Highs_getIntInfoValue(highs.get(), "primal_solution_status", &primal);
  const bool has_solution = primal == kHighsSolutionStatusFeasible;
  solution.status = StatusOf(highs.get(), has_solution);
  if (solution.status == LinearSolution::Status::kAbove) solution.bound = options.cutoff;
  if (!has_solution || solution.status == LinearSolution::Status::kAbove) return solution;
  solution.values.resize(lower_.size());
  solution.duals.resize(row_lower_.size());
  std::vector<double> column_duals(lower_.size());
  std::vector<double> row_values(row_lower_.size());
  Check(Highs_getSolution(highs.get(), solution.values.data(), column_duals.data(),
                          row_values.data(), solution.duals.data()),
        "to give its solution");
  solution.objective = Highs_getObjectiveValue(highs.get());
  solution.bound = solution.objective;
  if (integers) {
    Highs_getDoubleInfoValue(highs.get(), "mip_dual_bound", &solution.bound);
    solution.duals.clear();
  }
  return solution;
}

}  // namespace lazytrain
