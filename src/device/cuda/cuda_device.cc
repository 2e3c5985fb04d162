#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/thread_pool.h"
#include "device/cuda/architecture.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_event.h"
#include "device/cuda/driver_memory.h"
#include "device/cuda/driver_overhead.h"
#include "device/cuda/gpu_facts.h"
#include "device/cuda/gpu_requirements.h"
#include "device/cuda/host_advice.h"
#include "device/cuda/host_lane.h"
#include "device/cuda/memory_blocks.h"
#include "device/cuda/shared_state.h"
#include "device/cuda/stream_lane.h"

namespace lazytrain::cuda {
namespace {

// From here on it matters how fast the host's memory is.
constexpr int64_t kMuchHostMemory = int64_t{1} << 30;

void CheckDriverVersion() {
  int driver = 0;
  int runtime = 0;
  Check(cudaDriverGetVersion(&driver), "reading the driver's version");
  Check(cudaRuntimeGetVersion(&runtime), "reading the CUDA runtime's version");
  CheckVersions(driver, runtime);
}

int DeviceCount() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  if (status == cudaErrorNoDevice) return 0;
  CheckDriverVersion();
  Check(status, "looking for GPUs");
  return 0;
}

void CheckDevice(int index) {
  CheckDriverVersion();
  CheckIndex(index, DeviceCount());
}

// Fails before anything is allocated where the build's kernels cannot run.
void CheckArchitecture(int index) {
  if (!KernelsLoad())
    throw WrongArchitecture(BuiltArchitecture(), ReadGpuFacts(index).architecture);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options)
      : index_(options.index),
        memory_(options.index),
        poison_(options.poison),
        shared_(Open(options.index)) {
    cudaDeviceProp properties;
    Check(cudaGetDeviceProperties(&properties, options.index), "reading the GPU's properties");
    name_ = properties.name;
    Check(cudaDeviceGetStreamPriorityRange(&low_priority_, &high_priority_), "reading priorities");
  }

  std::string_view backend() const override { return "cuda"; }
  std::string description() const override { return name_; }
  std::string driver() const override {
    int version = 0;
    Check(cudaDriverGetVersion(&version), "reading the driver's version");
    std::string release;
    std::getline(std::ifstream("/sys/module/nvidia/version"), release);
    return fmt::format("CUDA {} {}", VersionText(version), release);
  }
  std::unique_ptr<MemoryBlock> AllocateDevice(int64_t bytes) override {
    return std::make_unique<DeviceBlock>(bytes, poison_, memory_.OthersBytes());
  }
  std::unique_ptr<MemoryBlock> AllocateHost(int64_t bytes) override {
    if (bytes > kMuchHostMemory && !advised_) GiveAdvice();
    return std::make_unique<PinnedBlock>(bytes, AvailableCores(), pinned_);
  }
  bool models_time() const override { return false; }
  int64_t UsedBytes() const override { return memory_.ProcessBytes(); }
  int64_t UsedBytesWith(int64_t host_bytes) const override {
    const int64_t tables = PinnedTableBytes(host_bytes) - PinnedTableBytes(*pinned_);
    return UsedBytes() + std::max<int64_t>(0, tables);
  }
  LibraryChoices library_choices() const override { return shared_.choices(); }
  void UseLibraryChoices(LibraryChoices choices) override {
    shared_.choices() = std::move(choices);
  }

  std::unique_ptr<Lane> MakeLane(LaneKind kind, std::string name) override {
    switch (kind) {
      case LaneKind::kCompute:
        return MakeStreamLane(high_priority_, std::move(name));
      case LaneKind::kHostToDevice:
      case LaneKind::kDeviceToHost:
        return MakeStreamLane(low_priority_, std::move(name));
      case LaneKind::kNvmeRead:
      case LaneKind::kNvmeWrite:
        return MakeHostLane(1);
      case LaneKind::kHost:
        return MakeHostLane(AvailableCores());
    }
    throw InternalError("a lane of no known kind");
  }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<CudaEvent>(); }
  void Reset(Event& event) override { static_cast<CudaEvent&>(event).Reset(); }

  void Synchronize() override {
    // Streams first: where the driver failed, host lanes learn from it that nobody will call them.
    for (StreamLane* lane : streams_) lane->Synchronize();
    for (HostLane* lane : hosts_) lane->AwaitIdle();
    shared_.EndEpoch();
    shared_.Rethrow();
  }

 private:
  static int Open(int index) {
    CheckDevice(index);
    // A thread that waits for the GPU sleeps: its core belongs to the optimizer.
    Check(cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid),
          "opening the GPU");
    Check(cudaSetDevice(index), "opening the GPU");
    CheckArchitecture(index);
    return index;
  }

  void GiveAdvice() {
    advised_ = true;
    char bus[32] = {};
    Check(cudaDeviceGetPCIBusId(bus, sizeof(bus), index_), "reading the GPU's address");
    for (const std::string& advice : HostAdvice("/", bus)) Note("{}", advice);
  }

  std::unique_ptr<Lane> MakeStreamLane(int priority, std::string name) {
    auto lane =
        std::make_unique<StreamLane>(shared_, priority, std::move(name),
                                     [this](StreamLane* ended) { std::erase(streams_, ended); });
    streams_.push_back(lane.get());
    return lane;
  }
  std::unique_ptr<Lane> MakeHostLane(int threads) {
    auto lane = std::make_unique<HostLane>(shared_, threads,
                                           [this](HostLane* ended) { std::erase(hosts_, ended); });
    hosts_.push_back(lane.get());
    return lane;
  }

  int index_;
  DriverMemory memory_;  // early: it reads what is taken before this process takes anything
  bool poison_;
  bool advised_ = false;
  std::shared_ptr<std::atomic<int64_t>> pinned_ = std::make_shared<std::atomic<int64_t>>(0);
  SharedState shared_;
  std::string name_;
  int low_priority_ = 0;
  int high_priority_ = 0;
  std::vector<StreamLane*> streams_;
  std::vector<HostLane*> hosts_;
};

}  // namespace

bool HasCudaDevice() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

std::unique_ptr<Device> MakeCudaDevice(const CudaDeviceOptions& options) {
  return std::make_unique<CudaDevice>(options);
}

}  // namespace lazytrain::cuda
