# gpupeak_page(TARGET): builds the page of `report --html` as one file, from collector/page and the npm packages that
# tools/bootstrap.sh fetches, and embeds it. Without these packages everything else is built.
set(GPUPEAK_PAGE_MODULES ${PROJECT_SOURCE_DIR}/build/page/node_modules CACHE PATH
    "npm packages that the page is made of (collector/page/package.json names them)")
set(GPUPEAK_PAGE_SOURCE ${PROJECT_SOURCE_DIR}/collector/page)

function(gpupeak_page target)
  file(GLOB esbuild ${GPUPEAK_PAGE_MODULES}/@esbuild/*/bin/esbuild)
  if(NOT esbuild OR NOT EXISTS ${GPUPEAK_PAGE_MODULES}/uplot OR NOT EXISTS ${GPUPEAK_PAGE_MODULES}/d3-flame-graph)
    message(STATUS "Page of report --html: left out, no packages in ${GPUPEAK_PAGE_MODULES}; tools/bootstrap.sh fetches them")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${GPUPEAK_PAGE_SOURCE}/*.js ${GPUPEAK_PAGE_SOURCE}/*.css)
  set(bundle ${CMAKE_CURRENT_BINARY_DIR}/page)
  set(page ${bundle}/page.html)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${GPUPEAK_PAGE_MODULES} ${esbuild} ${GPUPEAK_PAGE_SOURCE}/page.js --bundle --minify
            --format=iife --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning --outfile=${bundle}/page.js
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${GPUPEAK_PAGE_SOURCE}/index.html -DBUNDLE=${bundle} -DPAGE=${page}
            -P ${PROJECT_SOURCE_DIR}/cmake/AssemblePage.cmake
    DEPENDS ${sources} ${GPUPEAK_PAGE_SOURCE}/index.html ${PROJECT_SOURCE_DIR}/cmake/AssemblePage.cmake
    COMMENT "Bundling the page of report --html" VERBATIM)
  set_source_files_properties(write/page_template.cc PROPERTIES
    COMPILE_DEFINITIONS GPUPEAK_PAGE_FILE="${page}" OBJECT_DEPENDS ${page})
  target_sources(${target} PRIVATE ${page})
  # The packages' licences require that they are passed on.
  file(GLOB licences ${GPUPEAK_PAGE_MODULES}/uplot/LICENSE ${GPUPEAK_PAGE_MODULES}/d3-*/LICENSE
       ${GPUPEAK_PAGE_MODULES}/internmap/LICENSE)
  foreach(licence IN LISTS licences)
    get_filename_component(package ${licence} DIRECTORY)
    get_filename_component(package ${package} NAME)
    install(FILES ${licence} DESTINATION share/doc/gpupeak/page RENAME ${package}.txt)
  endforeach()
endfunction()
