# Install rules and the package config: find_package(loopwright) gives loopwright::runtime and loopwright::compiler.
include(CMakePackageConfigHelpers)

# What the archives need at link time, by their public package names so that the export names no private target.
foreach(product runtime compiler)
  get_target_property(type loopwright_${product} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND products loopwright_${product})
  endif()
endforeach()
if("loopwright_runtime" IN_LIST products)
  target_link_libraries(loopwright_runtime PUBLIC fmt::fmt SQLite::SQLite3 zstd::libzstd_shared Threads::Threads
                        ${CMAKE_DL_LIBS})
endif()
if("loopwright_compiler" IN_LIST products)
  target_link_libraries(loopwright_compiler PRIVATE spdlog::spdlog xgboost $<$<BOOL:${LOOPWRIGHT_LLVM}>:LLVM>)
endif()

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/loopwright")
if(TARGET loopwright AND TARGET loopwright-worker)
  install(TARGETS loopwright loopwright-worker RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT programs)
endif()
if(products)
  install(TARGETS ${products} EXPORT loopwright-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          COMPONENT libraries)
  install(EXPORT loopwright-targets NAMESPACE loopwright:: DESTINATION "${config_dir}" COMPONENT libraries)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT libraries
          FILES_MATCHING PATTERN "*.h")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/loopwright-config.cmake.in"
                                "${PROJECT_BINARY_DIR}/loopwright-config.cmake" INSTALL_DESTINATION "${config_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/loopwright-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/loopwright-config.cmake" "${PROJECT_BINARY_DIR}/loopwright-config-version.cmake"
          DESTINATION "${config_dir}" COMPONENT libraries)
endif()
