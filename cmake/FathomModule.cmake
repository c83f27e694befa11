# Functions that declare a folder under src/ or tests/ as one CMake target.

# Bits must not depend on the compiler's mood: no contraction, no reassociation, anywhere.
add_library(fathom_flags INTERFACE)
target_compile_options(fathom_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O2>)
if(FATHOM_WERROR)
  target_compile_options(fathom_flags INTERFACE -Werror)
endif()
if(FATHOM_SANITIZE)
  target_compile_options(fathom_flags INTERFACE
    -fsanitize=${FATHOM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(fathom_flags INTERFACE -fsanitize=${FATHOM_SANITIZE})
endif()
if(FATHOM_FUZZ)
  # Coverage feedback from all of fathom's code; only the fuzz targets link libFuzzer's main.
  target_compile_options(fathom_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(fathom_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_include_directories(fathom_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

# fathom_module(name [PUBLIC lib ...] [PRIVATE lib ...]): static library from every .cc below the folder.
# Sources whose name ends in _avx2.cc or _avx512.cc are compiled for that instruction set.
function(fathom_module name)
  cmake_parse_arguments(ARG "" "" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    add_library(fathom_${name} INTERFACE)
    target_link_libraries(fathom_${name} INTERFACE fathom_flags ${ARG_PUBLIC} ${ARG_PRIVATE})
    return()
  endif()
  add_library(fathom_${name} STATIC ${sources})
  target_link_libraries(fathom_${name} PUBLIC fathom_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  # Sanitizers' checks in fully unrolled kernels take the optimiser minutes above -O1.
  set(level -O3)
  if(FATHOM_SANITIZE)
    set(level -O1)
  endif()
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;${level}")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c;${level};-mprefer-vector-width=512")
    endif()
  endforeach()
endfunction()

# fathom_test(name DIR dir LABELS labels LIBS lib ...): one gtest binary from every *_test.cc in the
# folder and its helpers; each test case becomes a ctest test.
function(fathom_test name)
  cmake_parse_arguments(ARG "" "DIR;TIMEOUT" "LABELS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_DIR}/*.cc)
  if(NOT sources)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE
    FATHOM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" FATHOM_BINARY_DIR="${CMAKE_BINARY_DIR}"
    FATHOM_TEST_DATA_DIR="${CMAKE_BINARY_DIR}/testdata")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main
                        ${RAPIDCHECK_LIBRARY})
  add_dependencies(${name} fathom_testdata)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
