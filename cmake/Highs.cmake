# HiGHS (MIT licence), the solver of mixed-integer programs, from the PyPI wheel `highsbox`: a shared
# library with a C interface. Its C++ interface has another string ABI and its CMake package names a
# missing file, so the library is imported by hand. Pinned by hash, unpacked, never run.

set(LAZYTRAIN_HIGHS_WHEEL highsbox-1.15.1-py3-none-manylinux2014_x86_64.whl)
set(LAZYTRAIN_HIGHS_SHA256 17f30d23ef37488467732b45f141146f7c287826a576b4514ae39a8cc4068b28)
set(LAZYTRAIN_WHEELS "${CMAKE_BINARY_DIR}/wheels" CACHE PATH
    "Folder where wheels from PyPI are kept; put them there by hand on a machine without network")

# Downloads a wheel unless it is there, checks its hash, and unpacks it once into `folder`.
function(lazytrain_wheel package version wheel sha256 folder)
  set(file ${LAZYTRAIN_WHEELS}/${wheel})
  if(NOT EXISTS ${file})
    message(STATUS "Downloading ${wheel} from PyPI")
    find_package(Python3 QUIET COMPONENTS Interpreter)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --no-deps --only-binary :all:
              --dest ${LAZYTRAIN_WHEELS} ${package}==${version}
      RESULT_VARIABLE failed ERROR_VARIABLE reason)
    if(failed OR NOT EXISTS ${file})
      message(FATAL_ERROR "Cannot download ${wheel} with pip (Debian: python3-pip): ${reason}\n"
                          "Without network, put the file into ${LAZYTRAIN_WHEELS}")
    endif()
  endif()
  file(SHA256 ${file} found)
  if(NOT found STREQUAL sha256)
    message(FATAL_ERROR "${file} has SHA256 ${found}, expected ${sha256}: delete it and try again")
  endif()
  if(NOT EXISTS ${folder})
    file(ARCHIVE_EXTRACT INPUT ${file} DESTINATION ${folder})
  endif()
endfunction()

set(folder ${CMAKE_BINARY_DIR}/third_party/highs-1.15.1)
lazytrain_wheel(highsbox 1.15.1 ${LAZYTRAIN_HIGHS_WHEEL} ${LAZYTRAIN_HIGHS_SHA256} ${folder})
set(dist ${folder}/highsbox-1.15.1.data/purelib/highsbox/highs_dist)
# Beside the program, which looks for it there ($ORIGIN).
file(COPY ${dist}/lib/libhighs.so DESTINATION ${CMAKE_BINARY_DIR})
add_library(highs SHARED IMPORTED GLOBAL)
set_target_properties(highs PROPERTIES
  IMPORTED_LOCATION ${CMAKE_BINARY_DIR}/libhighs.so IMPORTED_SONAME libhighs.so)
target_include_directories(highs SYSTEM INTERFACE ${dist}/include/highs)
