# Outside libraries, all from Debian 12 (scripts/install_deps.sh). Static where Debian ships a static
# library, so that a binary built on Debian 12 also runs on newer systems.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

# lazytrain_static_library(<target> FILE <lib*.a> HEADER <header> [SUFFIXES ...])
function(lazytrain_static_library target)
  cmake_parse_arguments(ARG "" "FILE;HEADER" "SUFFIXES" ${ARGN})
  find_library(${target}_FILE NAMES ${ARG_FILE} PATH_SUFFIXES ${ARG_SUFFIXES})
  find_path(${target}_INCLUDE NAMES ${ARG_HEADER} PATH_SUFFIXES ${ARG_SUFFIXES})
  if(NOT ${target}_FILE OR NOT ${target}_INCLUDE)
    message(FATAL_ERROR "${ARG_FILE} or ${ARG_HEADER} is missing: run scripts/install_deps.sh")
  endif()
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_FILE}
                                             INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${${target}_INCLUDE})
endfunction()

lazytrain_static_library(yaml-cpp FILE libyaml-cpp.a HEADER yaml-cpp/yaml.h)
lazytrain_static_library(xxhash FILE libxxhash.a HEADER xxhash.h)
lazytrain_static_library(pcre2-8 FILE libpcre2-8.a HEADER pcre2.h)

find_path(CLI11_INCLUDE NAMES CLI/CLI.hpp REQUIRED)
add_library(cli11 INTERFACE)
target_include_directories(cli11 SYSTEM INTERFACE ${CLI11_INCLUDE})
