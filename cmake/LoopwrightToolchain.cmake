# Language level, compiler cache, linker and warnings for every target of this project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the Python module links the same archives
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(LOOPWRIGHT_CCACHE ccache)
  if(LOOPWRIGHT_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER "${LOOPWRIGHT_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${LOOPWRIGHT_CCACHE}")
  endif()
endif()

find_program(LOOPWRIGHT_MOLD mold)
if(LOOPWRIGHT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# A list that g++ 12 and clang 19 both accept. The switched-off ones are g++ 12 false positives on optimised
# std::string and std::vector code, or complain about designated initialisers that leave members at their default.
add_library(lw_options INTERFACE)
target_compile_options(lw_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lw_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds
                         -Wno-stringop-overflow -Wno-stringop-overread -Wno-free-nonheap-object)
else()
  # libstdc++ 12's own std::stable_sort uses what it marks as deprecated.
  target_compile_options(lw_options INTERFACE -Wno-deprecated-declarations)
endif()
target_compile_definitions(lw_options INTERFACE LOOPWRIGHT_VERSION="${PROJECT_VERSION}")

# Seen by the driver and by all that use it, and by nothing below, so that presets share the compiler cache.
add_library(lw_features INTERFACE)
target_compile_definitions(lw_features INTERFACE LOOPWRIGHT_HAS_LLVM=$<BOOL:${LOOPWRIGHT_LLVM}>)
