// The machine a step program runs on, as the rest of the project sees it: blocks of memory, lanes
// that run work in order, and events by which lanes wait for each other. Two backends implement it:
// the virtual accelerator (device/cpu) and CUDA (device/cuda).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace lazytrain {

// A block of memory of a fixed size, mapped once and never grown. The base is aligned to at least
// kAlignment bytes.
class MemoryBlock {
 public:
  virtual ~MemoryBlock() = default;
  virtual std::byte* base() const = 0;
  virtual int64_t bytes() const = 0;
  // The range holds nothing of value and is nobody's until it is claimed. Backends that check fill
  // it, so that reading it shows (as NaN) and writing to it is found by Claim; others do nothing.
  virtual void Release(int64_t offset, int64_t bytes) = 0;
  // The range is in use again. Throws InternalError where the backend can tell that it was written
  // to since it was released.
  virtual void Claim(int64_t offset, int64_t bytes) = 0;
  // Bytes of it that were ever touched, as far as the system can tell (whole pages); bytes() where
  // it cannot.
  virtual int64_t TouchedBytes() const = 0;
};

// What a kernel finds where it runs: a stream and library handles, or threads. Each backend's
// kernels know their own subclass.
class LaneContext {
 public:
  virtual ~LaneContext() = default;
};

// A point in a lane's work: passed once all work enqueued before its Record is done.
class Event {
 public:
  virtual ~Event() = default;
  // When it was passed, in seconds of the device's clock; valid once the lane was synchronised.
  virtual double seconds() const = 0;
};

// What a piece of work asks of the machine, for devices that model time instead of taking it (the
// virtual accelerator's throttle and virtual clock); others ignore it.
struct Demand {
  double seconds = 0;      // on its lane, with the host memory to itself
  int64_t host_bytes = 0;  // host memory traffic
};

// What libraries chose for calls (an algorithm for a matrix product), by a text that says all that
// the choice depends on.
using LibraryChoices = std::map<std::string, std::string>;

// A queue that runs its work in order, beside the other lanes.
class Lane {
 public:
  virtual ~Lane() = default;

  // Later work of this lane starts after `event` was passed. The event must have been recorded by
  // an earlier call (on any lane) since its last Reset by the device.
  virtual void Wait(const Event& event) = 0;
  virtual void Record(Event& event) = 0;

  // `work` runs on the lane (or enqueues there what runs). An exception it throws ends the work of
  // all lanes and is rethrown by Device::Synchronize.
  virtual void Run(std::function<void(LaneContext&)> work, const Demand& demand) = 0;

  // `bytes` from `source` to `target`; either may be host or device memory.
  virtual void Copy(void* target, const void* source, int64_t bytes, const Demand& demand) = 0;
};

// What a lane is for. A device may give it its own thread, stream or copy engine accordingly.
enum class LaneKind { kCompute, kHostToDevice, kDeviceToHost, kNvmeRead, kNvmeWrite, kHost };

class Device {
 public:
  virtual ~Device() = default;
  // The backend whose kernels run here: "cpu" or "cuda".
  virtual std::string_view backend() const = 0;
  // For people: "virtual accelerator (2 threads)", "NVIDIA H200".
  virtual std::string description() const = 0;
  // The version of its driver; empty where there is none.
  virtual std::string driver() const { return ""; }

  // Throws Error if the memory cannot be had.
  virtual std::unique_ptr<MemoryBlock> AllocateDevice(int64_t bytes) = 0;
  // Host memory that copies reach at full speed (pinned, where that means something).
  virtual std::unique_ptr<MemoryBlock> AllocateHost(int64_t bytes) = 0;

  // Bytes of device memory that this process holds, with what the driver takes for itself, as the
  // driver reports it; 0 where there is no driver.
  virtual int64_t UsedBytes() const { return 0; }
  // What that will be once AllocateHost has given out `host_bytes` in all, of which the driver
  // keeps tables on the device.
  virtual int64_t UsedBytesWith(int64_t /*host_bytes*/) const { return UsedBytes(); }

  // The choices for all calls so far; empty where no library chooses.
  virtual LibraryChoices library_choices() const { return {}; }
  // Calls among these are made as they were before, on the same device by the same libraries.
  // Throws Error, at the call, where that is impossible.
  virtual void UseLibraryChoices(LibraryChoices /*choices*/) {}

  // Whether the lanes look at the Demand of work; computing it for each instruction is not free.
  virtual bool models_time() const = 0;

  virtual std::unique_ptr<Lane> MakeLane(LaneKind kind, std::string name) = 0;
  virtual std::unique_ptr<Event> MakeEvent() = 0;
  // The event may be recorded again. No lane may still wait for it.
  virtual void Reset(Event& event) = 0;

  // Blocks until everything enqueued on every lane is done; rethrows the first failure.
  virtual void Synchronize() = 0;
};

}  // namespace lazytrain
