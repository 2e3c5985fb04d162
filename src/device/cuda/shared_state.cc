#include "device/cuda/shared_state.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "device/cuda/cuda_error.h"

namespace lazytrain::cuda {
namespace {

// A function of the driver, found at run time: linking libcuda would keep the program from starting
// on machines without a driver.
template <typename Function>
void FindDriverFunction(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  Check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess) {
    throw RunError("the NVIDIA driver has no {}; install driver 580 or newer", name);
  }
  function = reinterpret_cast<Function>(address);
}

void CheckDriver(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  throw RunError("{}: the GPU's driver reports error {}; restart the program", what,
                 static_cast<int>(status));
}

}  // namespace

Epoch::~Epoch() {
  if (base != nullptr) cudaEventDestroy(base);
}

SharedState::SharedState(int device) : gpu_(ReadGpuFacts(device)) {
  FindDriverFunction("cuStreamWaitValue32", wait_value_);
  FindDriverFunction("cuStreamWriteValue32", write_value_);
  Check(cudaStreamCreateWithFlags(&clock_stream_, cudaStreamNonBlocking), "creating a stream");
}

SharedState::~SharedState() { cudaStreamDestroy(clock_stream_); }

double SharedState::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - opened_).count();
}

std::shared_ptr<const Epoch> SharedState::epoch() {
  if (epoch_ == nullptr) {
    auto epoch = std::make_shared<Epoch>();
    Check(cudaEventCreate(&epoch->base), "creating an event");
    // The base passes between two readings of the host's clock; where something came between them,
    // once more.
    constexpr double kCloseEnough = 50e-6;
    double distance = kCloseEnough + 1.0;
    for (int attempt = 0; attempt < 5 && distance > kCloseEnough; ++attempt) {
      const double before = Now();
      Check(cudaEventRecord(epoch->base, clock_stream_), "recording an event");
      Check(cudaStreamSynchronize(clock_stream_), "reading the GPU's clock");
      distance = Now() - before;
      epoch->seconds = before + distance / 2;
    }
    epoch_ = std::move(epoch);
  }
  return epoch_;
}

void SharedState::WaitFor(cudaStream_t stream, Counter& counter, uint32_t count) {
  CheckDriver(wait_value_(stream, reinterpret_cast<CUdeviceptr>(&counter.value), count,
                          CU_STREAM_WAIT_VALUE_GEQ),
              "waiting for the host");
}

void SharedState::WriteTo(cudaStream_t stream, Counter& counter, uint32_t count) {
  CheckDriver(write_value_(stream, reinterpret_cast<CUdeviceptr>(&counter.value), count,
                           CU_STREAM_WRITE_VALUE_DEFAULT),
              "telling the host");
}

void SharedState::Attempt(const std::function<void()>& action) {
  if (broken_) return;
  try {
    action();
  } catch (...) {
    Fail(std::current_exception());
  }
}

void SharedState::Fail(std::exception_ptr failure) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::move(failure);
  failed_ = true;
}

void SharedState::Rethrow() {
  failed_ = false;
  const DeviceFault fault = std::exchange(*fault_.get(), DeviceFault());
  const std::lock_guard lock(failure_mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (fault.fault != 0) throw Error(ErrorKind::kFailed, Describe(fault));
}

}  // namespace lazytrain::cuda
