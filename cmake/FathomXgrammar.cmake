# Builds the C++ core of xgrammar (Apache-2.0) as a static library, without Python or torch.
#
# Its source is no distribution package: pip fetches the pinned sdist from the package index that pip
# is configured for, into the build folder. Where that fails the target does not exist, the build goes
# on, and fathom refuses structured output with a message (src/grammar/unavailable.cc).
option(FATHOM_STRUCTURED_OUTPUT "Fetch and build xgrammar for structured output" ON)

set(XGRAMMAR_VERSION 0.2.9)
set(XGRAMMAR_SHA256 87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90)
set(XGRAMMAR_FOLDER ${CMAKE_BINARY_DIR}/_deps)
set(XGRAMMAR_SOURCE ${XGRAMMAR_FOLDER}/xgrammar-${XGRAMMAR_VERSION})

# Sets `pip` to a command that runs pip: Python's own, or that of a fresh virtual environment (Debian
# and Ubuntu keep pip apart from python3; python3-venv brings it along).
function(fathom_find_pip result)
  set(${result} "" PARENT_SCOPE)
  find_program(PYTHON3_EXECUTABLE python3)
  if(NOT PYTHON3_EXECUTABLE)
    return()
  endif()
  execute_process(COMMAND ${PYTHON3_EXECUTABLE} -m pip --version
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(${result} ${PYTHON3_EXECUTABLE} -m pip PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${PYTHON3_EXECUTABLE} -m venv ${XGRAMMAR_FOLDER}/venv
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(${result} ${XGRAMMAR_FOLDER}/venv/bin/python -m pip PARENT_SCOPE)
  endif()
endfunction()

# Replaces one place of the source.
function(fathom_mend file wrong right)
  file(READ ${file} text)
  string(FIND "${text}" "${wrong}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${file} is not the file that XGRAMMAR_SHA256 stands for.")
  endif()
  string(REPLACE "${wrong}" "${right}" text "${text}")
  file(WRITE ${file} "${text}")
endfunction()

# Defects of version 0.2.9; the unit tests of src/grammar notice each.
function(fathom_mend_xgrammar source)
  # Takes "contains" for "begins with" in its trie of tokens, and rejects some that are allowed.
  fathom_mend(${source}/cpp/tokenizer_info.cc
    "(token.find(prefix_stack.top().first) == std::string::npos)"
    "(token.compare(0, prefix_stack.top().first.size(), prefix_stack.top().first) != 0)")
  # Lets raw control characters into JSON strings whose length is bounded.
  fathom_mend(${source}/cpp/json_schema_converter.cc
    [=[AddCharacterClass({{'"', '"'}, {'\\', '\\'}, {'\r', '\r'}, {'\n', '\n'}}, true)]=]
    [=[AddCharacterClass({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}, true)]=])
  # Lets surrogates into JSON strings, which no UTF-8 text has.
  fathom_mend(${source}/cpp/json_schema_converter.cc
    [=[{0, 0x1f}, {'"', '"'}]=] [=[{0, 0x1f}, {0xd800, 0xdfff}, {'"', '"'}]=])
endfunction()

function(fathom_fetch_xgrammar)
  set(archive ${XGRAMMAR_FOLDER}/xgrammar-${XGRAMMAR_VERSION}.tar.gz)
  fathom_find_pip(pip)
  if(NOT pip)
    message(STATUS "xgrammar: neither python3 -m pip nor python3 -m venv works")
    return()
  endif()
  # pip prepares a source's metadata to download it, so the backend it names is fetched as well.
  file(WRITE ${XGRAMMAR_FOLDER}/xgrammar.txt
       "xgrammar==${XGRAMMAR_VERSION} --hash=sha256:${XGRAMMAR_SHA256}\n")
  message(STATUS "Fetching xgrammar ${XGRAMMAR_VERSION} with pip")
  execute_process(
    COMMAND ${pip} download --quiet --disable-pip-version-check --retries 1 --timeout 20
            --no-deps --no-binary xgrammar --require-hashes -r ${XGRAMMAR_FOLDER}/xgrammar.txt
            -d ${XGRAMMAR_FOLDER}
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE errors TIMEOUT 180)
  if(failed OR NOT EXISTS ${archive})
    message(STATUS "xgrammar: pip could not fetch it:\n${errors}")
    return()
  endif()
  file(SHA256 ${archive} sum)
  if(NOT sum STREQUAL XGRAMMAR_SHA256)
    file(REMOVE ${archive})
    message(STATUS "xgrammar: the archive has the SHA-256 ${sum}, not ${XGRAMMAR_SHA256}")
    return()
  endif()
  # Unpacked beside its place and moved there when complete.
  file(REMOVE_RECURSE ${XGRAMMAR_FOLDER}/unpacked)
  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${XGRAMMAR_FOLDER}/unpacked)
  set(unpacked ${XGRAMMAR_FOLDER}/unpacked/xgrammar-${XGRAMMAR_VERSION})
  fathom_mend_xgrammar(${unpacked})
  file(RENAME ${unpacked} ${XGRAMMAR_SOURCE})
endfunction()

if(FATHOM_STRUCTURED_OUTPUT AND NOT EXISTS ${XGRAMMAR_SOURCE})
  fathom_fetch_xgrammar()
endif()

if(FATHOM_STRUCTURED_OUTPUT AND EXISTS ${XGRAMMAR_SOURCE})
  set(sources compiled_grammar config earley_parser fsm fsm_builder grammar grammar_builder
      grammar_compiler grammar_functor grammar_matcher grammar_parser grammar_printer
      json_schema_converter lark_converter regex_converter structural_tag suffix_automata testing
      tokenizer_info converter_ext/cohere converter_ext/deepseek converter_ext/gemma
      converter_ext/glm converter_ext/kimi_k3 converter_ext/minimax converter_ext/minimax_m3
      converter_ext/qwen support/logging support/recursion_guard)
  list(TRANSFORM sources PREPEND ${XGRAMMAR_SOURCE}/cpp/)
  list(TRANSFORM sources APPEND .cc)
  add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${sources})
  # Formats of other families are linked but never run.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w")
  foreach(unused lark_converter converter_ext/cohere converter_ext/gemma converter_ext/glm
          converter_ext/kimi_k3 converter_ext/minimax converter_ext/minimax_m3 converter_ext/qwen)
    set_source_files_properties(${XGRAMMAR_SOURCE}/cpp/${unused}.cc PROPERTIES
      COMPILE_OPTIONS "-w;-O0;-g0")
  endforeach()
  set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
  target_compile_definitions(xgrammar PUBLIC
    XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
  target_include_directories(xgrammar SYSTEM PUBLIC
    ${XGRAMMAR_SOURCE}/include ${XGRAMMAR_SOURCE}/cpp
    ${XGRAMMAR_SOURCE}/3rdparty/picojson ${XGRAMMAR_SOURCE}/3rdparty/dlpack/include)
  target_link_libraries(xgrammar PRIVATE fathom_flags Threads::Threads)
  message(STATUS "Structured output: xgrammar ${XGRAMMAR_VERSION}")
else()
  message(STATUS "Structured output: not available in this build; requests for it are refused")
endif()
