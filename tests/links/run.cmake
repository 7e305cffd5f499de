# cmake -DBUILD=<build folder> -DSOURCE=<tests/links> -DUSE=<runtime|compiler> -DCOMPILER=<c++> -DFLAGS=<flags> -P run.cmake
# Installs BUILD into a fresh folder, builds the consumer against it and runs what came out.
set(work "${BUILD}/tests/links/${USE}")
file(REMOVE_RECURSE "${work}")
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}\n${output}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${work}/installed" --component libraries)
run(${CMAKE_COMMAND} -S "${SOURCE}/consumer" -B "${work}/build" -G Ninja -DUSE=${USE}
    "-DCMAKE_PREFIX_PATH=${work}/installed" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
    "-DCMAKE_EXE_LINKER_FLAGS=${LINK_FLAGS}")
run(${CMAKE_COMMAND} --build "${work}/build" -j 1)
run("${work}/build/consumer")
