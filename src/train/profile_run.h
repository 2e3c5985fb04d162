// Measuring this machine on request: the command `lazytrain profile`.
#pragma once

#include <cstdint>
#include <string>

#include "profile/machine_profile.h"

namespace lazytrain {

struct ProfileOptions {
  std::string device = "auto";
  std::string model;  // folder with a config.json; empty: no ops, products of a usual size
  std::string dtype = "bfloat16";
  int64_t tokens = 8192;        // of a micro-batch, with a model
  int64_t sequence = 1024;      // tokens a document, with a model
  double device_memory_gb = 0;  // to measure in; 0: 16, on the virtual accelerator 2
  std::string nvme_dir;         // empty: no disk is measured
  double nvme_gb = 4;           // of the file that is written there
};

// Measures, prints a table, and keeps what it found in the cache of this machine, too. Throws Error
// for options that cannot be.
MachineProfile RunProfile(const ProfileOptions& options);

}  // namespace lazytrain
