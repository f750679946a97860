# What depends on the compiler and on the processor that is built for.

# Stop with what is wrong, and with the way that is always open.
function(mercer_cannot_build)
  string(CONCAT reason ${ARGV})
  message(FATAL_ERROR "${reason} Or do without the native module, several times slower: "
    "pip install --config-settings=wheel.cmake=false .")
endfunction()

# Stop where the compiler is known to lack what the core is written in.
function(mercer_check_compiler id version)
  if(id STREQUAL "MSVC")  # in quotes, since MSVC is a variable too
    mercer_cannot_build("mercer's native module uses the vector extension of GCC and Clang, which "
      "Microsoft's cl.exe lacks: build with its clang-cl, by CMAKE_GENERATOR_TOOLSET=ClangCL or "
      "CXX=clang-cl.")
  endif()
  set(least_GNU 11)
  set(least_Clang 14)
  set(least_AppleClang 14)
  if(DEFINED least_${id} AND version VERSION_LESS least_${id})
    mercer_cannot_build("mercer's native module needs ${id} ${least_${id}} or later, and "
      "${CMAKE_CXX_COMPILER} is ${version}: install a later one and name it in the variable CXX.")
  endif()
endfunction()

# Processors that are built for: of Apple's systems one or more, which may not be the machine's own.
function(mercer_processors out)
  if(APPLE AND CMAKE_OSX_ARCHITECTURES)
    set(${out} ${CMAKE_OSX_ARCHITECTURES} PARENT_SCOPE)
  else()
    set(${out} ${CMAKE_SYSTEM_PROCESSOR} PARENT_SCOPE)
  endif()
endfunction()

# The levels to build, from MERCER_LEVELS. Only x86-64 has more than the baseline.
function(mercer_levels out)
  mercer_processors(processors)
  if(NOT processors MATCHES "x86_64|AMD64|amd64")
    set(levels baseline)
  elseif(MERCER_LEVELS STREQUAL "all")
    set(levels baseline v3 v4)
  elseif(MERCER_LEVELS STREQUAL "native")
    mercer_native_level(native)
    set(levels baseline ${native})
    list(REMOVE_DUPLICATES levels)
  else()
    set(levels ${MERCER_LEVELS})
    foreach(level IN LISTS levels)
      if(NOT level MATCHES "^(baseline|v3|v4)$")
        message(FATAL_ERROR "MERCER_LEVELS is '${MERCER_LEVELS}'; expected native, all, or a list "
          "of baseline, v3 and v4")
      endif()
    endforeach()
    # The baseline says what the machine runs, and serves where that is less than what was built.
    list(PREPEND levels baseline)
    list(REMOVE_DUPLICATES levels)
  endif()
  set(${out} ${levels} PARENT_SCOPE)
endfunction()

# This machine's level; both higher ones where what is built will run on another.
function(mercer_native_level out)
  mercer_processors(processors)
  list(LENGTH processors count)
  if(CMAKE_CROSSCOMPILING OR count GREATER 1 OR NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL processors)
    set(${out} v3 v4 PARENT_SCOPE)
    return()
  endif()
  try_run(ran compiled "${CMAKE_BINARY_DIR}/machine_level"
    "${CMAKE_SOURCE_DIR}/src/mercer/core/native/machine_level.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${CMAKE_SOURCE_DIR}/src/mercer/core/native/include"
    RUN_OUTPUT_VARIABLE level)
  if(NOT compiled OR NOT ran EQUAL 0)
    set(${out} v3 v4 PARENT_SCOPE)
    return()
  endif()
  string(STRIP "${level}" level)
  string(REPLACE "x86-64-" "" level "${level}")
  set(${out} ${level} PARENT_SCOPE)
endfunction()

# The compiler's option for a level. A universal module has it in its x86-64 part alone: the other
# part is a copy of the baseline, and is never loaded.
function(mercer_march level out)
  mercer_processors(processors)
  if(processors MATCHES ";")
    set(${out} "SHELL:-Xarch_x86_64 -march=x86-64-${level}" PARENT_SCOPE)
  else()
    set(${out} -march=x86-64-${level} PARENT_SCOPE)
  endif()
endfunction()
