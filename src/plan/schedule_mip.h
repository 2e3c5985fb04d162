// The mixed-integer program of a step: which values wait where, what is recomputed, what stays on
// the device, where updates run, so that the predicted step is shortest. Passes and micro-batches
// are given; the planner searches over them.
//
// Time is cut into windows, one segment forward or backward for all micro-batches of a pass. In
// each window compute takes what it takes plus `exposed` time in which it waits. Transfers are
// queues, one a direction: backlog after = backlog before + issued - drained, drained <= bandwidth
// times (window + exposed); what waits in a queue is device memory. Passes that are alike share
// their windows: the first, those between, the last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/linear_program.h"
#include "plan/plan_costs.h"
#include "plan/schedule.h"

namespace lazytrain {

// Bytes of each memory.
struct PlanBudget {
  double device_bytes = 0;
  double host_activation_bytes = 0;
  double nvme_bytes = 0;
};

enum class ClipMode { kExact, kPrevious };

// What a schedule may choose from.
struct PlanSpace {
  bool boundaries_only = false;     // layer inputs are kept or recomputed, nothing else
  std::vector<std::string> groups;  // only these may be kept; empty: all
  bool residency = true;            // weights, accumulators, states may stay on the device
  bool host_updates = true;         // updates may run on the host
  bool device_updates = true;
  bool nvme = false;
  ClipMode clip = ClipMode::kExact;

  bool MayKeep(const SegmentChain& chain, size_t segment, size_t group) const;
};

struct PlanProblem {
  const ModelGraph* model = nullptr;
  const PlanCosts* costs = nullptr;
  HardwareRates rates;
  PlanBudget budget;
  PlanSpace space;
  Capacity capacity;
};

// The parts of a predicted step, in seconds, and its traffic in bytes.
struct StepEstimate {
  double seconds = 0;
  double recompute = 0;
  double exposed = 0;         // waiting for transfers or updates
  double exposed_update = 0;  // of it, before the first window: updates and the first weights
  double h2d_bytes = 0;
  double d2h_bytes = 0;
};

class ScheduleMip {
 public:
  ScheduleMip(const PlanProblem& problem, std::vector<int64_t> passes);

  const LinearProgram& program() const { return program_; }
  LinearProgram& program() { return program_; }

  // The schedule of a solution; columns of choices count as taken from 0.5 on.
  Schedule ScheduleOf(const LinearSolution& solution) const;
  StepEstimate EstimateOf(const LinearSolution& solution) const;
  // The choice columns of a schedule, others 0: an incumbent. Choices that the space does not have
  // are left out.
  std::vector<double> ColumnsOf(const Schedule& schedule) const;
  // Leaves the solver no choice but this schedule.
  void Fix(const Schedule& schedule);

 private:
  friend class ScheduleScore;
  friend class LocalSearch;
  static constexpr int kNone = -1;
  static constexpr double kGB = 1e9;
  // Billions: of bytes, or of parameters.
  static double GB(int64_t count) { return static_cast<double>(count) / kGB; }

  struct GroupChoice {
    int device = kNone;  // columns
    int host = kNone;
    int nvme = kNone;
  };
  struct UnitChoice {
    int weights = kNone;  // columns: 1 if it stays on the device
    int accumulator = kNone;
    int states = kNone;
    int device_update = kNone;
    int fetched = kNone;       // 1 if its weights come to the device in the first pass
    int weights_back = kNone;  // 1 if the device's update has to be sent to the host
  };
  // Passes that are alike.
  struct PassKind {
    double micro_batches = 0;
    double count = 1;  // passes of the kind
    bool first = false;
    bool last = false;
  };
  // What a window asks for; bytes in GB.
  struct Window {
    int segment = 0;
    bool backward = false;
    LinearSum seconds;     // of compute
    LinearSum h2d_before;  // must be there when it starts
    LinearSum h2d_during;  // for later micro-batches
    LinearSum d2h_issued;
    LinearSum read_before;  // of h2d: from NVMe, through host memory
    LinearSum read_during;
    LinearSum written;       // of d2h_issued: to NVMe
    LinearSum memory;        // without queues
    LinearSum host_updates;  // billions of parameters that the host has updated when it starts
    LinearSum made;          // those of its own whose gradients are final when it ends

    // Its neighbour as well: one window of both.
    void Add(const Window& other);
  };

  // GB, and what they are at most.
  struct Held {
    LinearSum gb;
    double most = 0;
  };

  // A column that follows from others: the largest of its lower bounds, or 0.
  struct Derived {
    int column = kNone;
    LinearSum lower;
  };
  // A window in its place.
  struct Placed {
    PassKind kind;
    Window window;
  };

  // Between windows.
  struct Queues {
    LinearSum ahead;    // GB fetched before they are needed
    LinearSum unsent;   // GB that wait to be sent off
    LinearSum unsaved;  // GB in host memory on their way to NVMe
    LinearSum staged;   // GB in host memory on their way from NVMe
    // Billions of parameters on the host: updated but not yet needed (clip exact), or to be updated
    // with the gradients that are there (clip previous).
    LinearSum updates;
  };

  void Derive(int column, const LinearSum& lower);
  void AddChoices();
  void AddUnitChoices();
  void AddUpdateChoices(UnitChoice& choice);
  void AddRecomputation();
  void RequireValue(const ValueId& id, const LinearSum& demand);
  void AddForwardRuns();
  void AddKeptBytes();
  Held HeldBy(size_t segment) const;
  LinearSum Divided(size_t segment) const;
  void AddBlocks();
  std::vector<PassKind> PassKinds() const;
  Window ForwardWindow(const PassKind& kind, int segment);
  Window BackwardWindow(const PassKind& kind, int segment);
  void AddUpdate(int unit, Window& window);
  void AddGradient(const PassKind& kind, int unit, Window& window);
  void AddPass(const PassKind& kind, Queues& queues);
  void StartStep(Queues& queues);
  void AddWindow(const PassKind& kind, const Window& window, Queues& queues);
  void EndStep(Queues& queues);
  void QueueNvme(const Window& window, const LinearSum& time, Queues& queues);
  void QueueUpdates(const Window& window, const LinearSum& updates, Queues& queues);
  void BoundIdle(int seconds, const LinearSum& h2d, const LinearSum& d2h, const LinearSum& updates);
  void BoundRates(const LinearSum& time, const LinearSum& h2d, const LinearSum& d2h,
                  const LinearSum& updates);
  void AddHostMemory();
  LinearSum PersistentBytes() const;
  LinearSum Kept(const ValueId& id) const;
  LinearSum OnDevice(int segment) const;  // of the segment's output boundary: 1 if on the device
  LinearSum Streamed(int unit) const;     // 1 - resident
  LinearSum Fetched(int unit) const;      // 1 unless resident and updated there, or frozen
  LinearSum HostUpdated(int unit) const;  // 1 if the host updates it
  double BoundaryBytes(int segment) const;

  const PlanProblem& problem_;
  const SegmentChain& chain_;
  const PlanCosts& costs_;
  std::vector<int64_t> passes_;
  LinearProgram program_;
  std::vector<std::vector<GroupChoice>> groups_;
  std::vector<UnitChoice> units_;
  std::vector<std::vector<int>> recomputed_;  // columns by segment and node
  std::vector<std::vector<LinearSum>> runs_;  // forward, by segment and node
  std::vector<int> kept_bytes_;               // columns: GB a micro-batch up to each segment
  std::vector<int> held_;                     // columns: GB of lower segments of a block
  std::vector<Derived> derived_;              // each after those that it follows from
  std::vector<Placed> windows_;  // in the order of a step, passes between first and last once
  LinearSum host_gb_, nvme_gb_;  // activations
  int host_kept_ = kNone;        // column: host_gb_
  LinearSum total_seconds_, recompute_seconds_, exposed_seconds_, h2d_gb_, d2h_gb_;
  int persistent_ = kNone;  // column: GB that stay on the device all the while
  int exposed_start_ = kNone;
};

}  // namespace lazytrain
