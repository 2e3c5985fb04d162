# Outside libraries, all from Debian 12 (scripts/install_deps.sh). Static where Debian ships a static
# library, so that a binary built on Debian 12 also runs on newer systems.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

# Debian has fmt's code as headers, compiled again with every file (half of the build's time), and as
# a shared library, which the machine that runs the program may lack. So it is compiled here, once;
# fmt_library.cc knows the list of version 9, Debian 12's.
if(fmt_VERSION VERSION_LESS 10)
  add_library(fmt_library STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt_library.cc)
  target_include_directories(fmt_library SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  add_library(fmt_library INTERFACE)
  target_link_libraries(fmt_library INTERFACE fmt::fmt-header-only)
endif()

# spdlog's headers with that fmt; its own target brings fmt's shared library.
add_library(spdlog_headers INTERFACE)
target_include_directories(spdlog_headers SYSTEM INTERFACE
  $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(spdlog_headers INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(spdlog_headers INTERFACE fmt_library Threads::Threads)

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
