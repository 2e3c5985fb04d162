#include "profile/profile_cache.h"

#include <unistd.h>

#include <cstdlib>

#include "core/error.h"
#include "core/log.h"

namespace lazytrain {

Path CachedProfilePath(const MachineDescription& machine) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return Path(home) / ".cache" / "lazytrain" / fmt::format("profile-{}.json", machine.Hex());
}

std::optional<MachineProfile> ReadCachedProfile(const Path& path,
                                                const MachineDescription& machine) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const Json json = ReadJsonFile(path);
    const bool old = json.is_object() && json.value("version", Json()) != MachineProfile::kVersion;
    if (old) return std::nullopt;
    MachineProfile profile = MachineProfile::FromJson(json, path.string());
    if (profile.machine != machine) return std::nullopt;
    return profile;
  } catch (const Error& broken) {
    Note("{}; the machine is measured again", broken.what());
  }
  return std::nullopt;
}

bool WriteCachedProfile(const Path& path, const MachineProfile& profile) {
  if (path.empty()) return false;
  try {
    MakeWritableFolder(path.parent_path());
    // Other processes may write the file at the same time.
    const Path own = fmt::format("{}.{}", path.string(), getpid());
    WriteFile(own, profile.ToJson().dump(1) + "\n");
    std::filesystem::rename(own, path);
    return true;
  } catch (const std::exception& error) {
    Note("measurements of this machine are not kept: {}", error.what());
  }
  return false;
}

}  // namespace lazytrain
