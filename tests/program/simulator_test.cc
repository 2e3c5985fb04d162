// Programs of a small model: what the simulator says is what the executor does on the virtual
// clock.
#include "program/simulator.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "engine/training_engine.h"
#include "program/waits.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

HardwareRates SlowRates(Random& random) {
  HardwareRates rates;
  rates.h2d_bytes = 1e6 * static_cast<double>(random.Between(1, 20));
  rates.d2h_bytes = 1e6 * static_cast<double>(random.Between(1, 20));
  rates.host_bytes = 1e6 * static_cast<double>(random.Between(1, 30));
  rates.gemm_flops = 1e8 * static_cast<double>(random.Between(1, 20));
  rates.device_bytes = 1e7 * static_cast<double>(random.Between(1, 20));
  rates.host_update = 1e5 * static_cast<double>(random.Between(1, 20));
  rates.device_update = 1e5 * static_cast<double>(random.Between(1, 20));
  return rates;
}

// Order, starts, ends and stalls equal, whatever the schedule and whatever the bottleneck.
TEST(Simulator, EqualsTheExecutorOnTheVirtualClock) {
  for (uint64_t round = 0; round < 40; ++round) {
    Random random(StreamSeed(11, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ProgramSet programs = testing::RandomPrograms(random, setup);
    const CostModel cost(SlowRates(random));
    VirtualAcceleratorOptions options;
    options.clock = ClockMode::kVirtual;
    options.host_bytes_per_second = cost.rates().host_bytes;
    options.threads = 1;
    const std::unique_ptr<Device> device = MakeVirtualAccelerator(options);
    TrainingEngine engine(*device, programs, cost, {});
    engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      InitializeUnit(unit, setup.seed, 0.3, memory);
    });
    engine.Step(setup.steps[0], 1e-2);  // from now on an update is pending
    const StepRows rows = RowsOf(setup.steps[1]);
    const StepTimeline measured = engine.Step(setup.steps[1], 1e-2).timeline;
    const StepTimeline predicted = Simulate(programs.training(), rows, cost);
    ASSERT_EQ(measured.spans.size(), predicted.spans.size());
    const double tolerance = 1e-9 * predicted.seconds;
    ASSERT_NEAR(measured.seconds, predicted.seconds, tolerance);
    for (size_t i = 0; i < measured.spans.size(); ++i) {
      const std::string& name = programs.training().instructions[i].name;
      ASSERT_NEAR(measured.spans[i].start, predicted.spans[i].start, tolerance) << name;
      ASSERT_NEAR(measured.spans[i].end, predicted.spans[i].end, tolerance) << name;
    }
    for (size_t lane = 0; lane < measured.lanes.size(); ++lane) {
      ASSERT_NEAR(measured.lanes[lane].busy, predicted.lanes[lane].busy, tolerance);
      for (size_t cause = 0; cause < measured.lanes.size(); ++cause) {
        ASSERT_NEAR(measured.lanes[lane].stalled[cause], predicted.lanes[lane].stalled[cause],
                    tolerance);
      }
    }
  }
}

// The memory curve of a simulated step never passes the planned peak, and reaches the persistent
// part.
TEST(Simulator, TheMemoryCurveStaysBelowThePeak) {
  for (uint64_t round = 0; round < 40; ++round) {
    Random random(StreamSeed(12, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ProgramSet programs = testing::RandomPrograms(random, setup);
    const Program& program = programs.training();
    const StepTimeline timeline =
        Simulate(program, FullStep(program.capacity), CostModel(SlowRates(random)));
    for (const int space : {kDeviceSpace, kHostSpace}) {
      int64_t most = 0;
      for (const MemoryPoint& point : MemoryCurve(program, timeline, space)) {
        most = std::max(most, point.bytes);
      }
      ASSERT_LE(most, program.peak_bytes[space]);
      ASSERT_GT(most, 0);
      ASSERT_EQ(MemoryCurve(program, timeline, space).back().bytes,
                programs.persistent().bytes[space]);
    }
  }
}

}  // namespace
}  // namespace lazytrain
