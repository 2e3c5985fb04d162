// Profiles of machines in the user's cache folder, one file each.
#pragma once

#include <optional>

#include "core/file.h"
#include "profile/machine_profile.h"

namespace lazytrain {

// $HOME/.cache/lazytrain/profile-<digest of the machine>.json; empty without a HOME.
Path CachedProfilePath(const MachineDescription& machine);

// What is known of the machine. Absent where there is no file, or one of another version or
// machine; a broken file is noted. Never throws Error.
std::optional<MachineProfile> ReadCachedProfile(const Path& path,
                                                const MachineDescription& machine);

// Writes the file, complete or not at all. False, and a note, where that cannot be.
bool WriteCachedProfile(const Path& path, const MachineProfile& profile);

}  // namespace lazytrain
