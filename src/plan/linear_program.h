// Linear and mixed-integer programs, built column by column and row by row, solved by HiGHS.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lazytrain {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A sum of columns times factors, and a constant.
struct LinearSum {
  std::vector<std::pair<int, double>> terms;
  double constant = 0;

  LinearSum() = default;
  LinearSum(double value) : constant(value) {}  // NOLINT: a number is a sum
  LinearSum& Add(int column, double factor = 1.0) {
    if (factor != 0) terms.emplace_back(column, factor);
    return *this;
  }
  LinearSum& operator+=(const LinearSum& other);
  LinearSum operator*(double factor) const;
};

struct LinearSolution {
  enum class Status {
    kOptimal,     // to the gap asked for
    kFeasible,    // the time ran out; the best found so far
    kInfeasible,  // there is none
    kAbove,       // none is below the cutoff
    kUnknown,     // the time ran out before any was found
  };
  Status status = Status::kUnknown;
  double objective = 0;
  double bound = 0;            // no solution is below
  std::vector<double> values;  // by column; empty without a solution
  std::vector<double> duals;   // by row; only of programs without integer columns

  bool found() const { return status == Status::kOptimal || status == Status::kFeasible; }
  double Value(const LinearSum& sum) const;
};

struct SolveOptions {
  double seconds = kInfinity;
  double gap = 0;                 // absolute: how far above the bound an optimum may be
  bool relaxed = false;           // integer columns may take any value between their bounds
  double cutoff = kInfinity;      // of relaxed programs: solutions above are of no interest
  std::vector<double> incumbent;  // a known solution, by column; only integer ones count
};

// Minimises cost. The same program and options give the same solution, unless the time ended it.
class LinearProgram {
 public:
  // Returns the column's number.
  int AddColumn(double lower, double upper, double cost = 0, bool integer = false);
  int AddBinary(double cost = 0) { return AddColumn(0, 1, cost, true); }
  // lower <= sum <= upper; the sum's constant is moved over. Returns the row's number.
  int AddRow(double lower, const LinearSum& sum, double upper);
  int AddAtLeast(const LinearSum& sum, double lower) { return AddRow(lower, sum, kInfinity); }
  int AddAtMost(const LinearSum& sum, double upper) { return AddRow(-kInfinity, sum, upper); }
  // Adds to the objective.
  void Minimise(const LinearSum& sum);
  void SetBounds(int column, double lower, double upper);

  int columns() const { return static_cast<int>(lower_.size()); }
  int rows() const { return static_cast<int>(row_lower_.size()); }

  LinearSolution Solve(const SolveOptions& options) const;

 private:
  std::vector<double> lower_, upper_, cost_;
  std::vector<bool> integer_;
  std::vector<double> row_lower_, row_upper_;
  std::vector<int> row_start_ = {0};
  std::vector<int> entry_column_;
  std::vector<double> entry_value_;
  double offset_ = 0;
};

}  // namespace lazytrain
