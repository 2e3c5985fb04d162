# A room is a folder of src/ built as a static library, lazytrain_<room>.

function(lazytrain_target_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Werror
                                           -Wshadow=local -Wnon-virtual-dtor -Wunused>)
  # AVX2 and FMA (every x86-64 server and desktop since 2013; src/main.cc checks at start). No
  # contraction behind our back: where a kernel means fma, it says so, and host and device agree.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3
                                           -ffp-contract=off -fno-math-errno -fno-trapping-math>)
  if(LAZYTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:
                                             -fsanitize=${LAZYTRAIN_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all>)
    target_link_options(${target} PRIVATE -fsanitize=${LAZYTRAIN_SANITIZE})
  endif()
endfunction()

# lazytrain_room(<name> [ROOMS <rooms it may include>] [LIBRARIES <outside libraries>])
function(lazytrain_room name)
  cmake_parse_arguments(ARG "" "" "ROOMS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/cuda/*.cc
                                                   ${CMAKE_SOURCE_DIR}/src/${name}/cuda/*.cu)
  if(cuda_sources AND LAZYTRAIN_HAS_CUDA)
    list(APPEND sources ${cuda_sources})
    list(REMOVE_DUPLICATES sources)
    list(APPEND ARG_LIBRARIES CUDA::cudart_static)
  elseif(cuda_sources)
    list(REMOVE_ITEM sources ${cuda_sources})
  endif()
  list(TRANSFORM ARG_ROOMS PREPEND lazytrain_)
  if(sources)
    add_library(lazytrain_${name} STATIC ${sources})
    lazytrain_target_options(lazytrain_${name})
    if(LAZYTRAIN_HAS_CUDA)
      lazytrain_cuda_options(lazytrain_${name})
      string(REPLACE ";" "," architectures "${LAZYTRAIN_CUDA_ARCH}")
      target_compile_definitions(lazytrain_${name} PUBLIC LAZYTRAIN_HAS_CUDA
        PRIVATE LAZYTRAIN_CUDA_ARCH="${architectures}")
    endif()
    set(scope PUBLIC)
  else()
    add_library(lazytrain_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lazytrain_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(lazytrain_${name} ${scope} ${ARG_ROOMS} ${ARG_LIBRARIES})
endfunction()
