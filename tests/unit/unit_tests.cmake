# The unit tests of the collector.
add_executable(gpupeak_unit_tests
  inline_sample.cc ../../tools/report/output_phases.cc ../../tools/run/memory.cc ../../tools/shared/process_stat.cc schema_check.cc test_block_matcher.cc test_byte_seconds.cc test_key_table.cc test_live_blocks.cc test_log_columns.cc test_damage.cc test_diff.cc
  test_exports.cc test_growth.cc test_heap_reading.cc test_ledger.cc test_log_parts.cc test_machine_code.cc test_mapping_table.cc test_model_tensors.cc test_memory_kills.cc test_merge.cc test_moments.cc test_ranks.cc test_name_cache.cc test_names.cc test_node_phases.cc test_output_lines.cc test_packed.cc
  test_page.cc test_peak_finder.cc test_phase_fold.cc test_phase_tree.cc test_phases.cc test_python_frames.cc
  test_record.cc test_replay.cc test_rtti.cc test_rules.cc test_loser_tree.cc test_symbolizer.cc test_time_series.cc test_verdict.cc test_views.cc
  test_row_roles.cc test_writers.cc this_program.cc)
if(GPUPEAK_HAS_LIBIBERTY)
  target_sources(gpupeak_unit_tests PRIVATE test_rust_names.cc)
endif()
# Optimizing the tests takes longer than running them. g++ warns of designated initializers that leave members out, which we do on purpose.
target_compile_options(gpupeak_unit_tests PRIVATE -O0 -g1 -Wno-missing-field-initializers)
target_compile_definitions(gpupeak_unit_tests PRIVATE
  GPUPEAK_GOLDEN_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/../golden")
target_link_libraries(gpupeak_unit_tests PRIVATE gpupeak_collector gpupeak_log_builder gpupeak_options gpupeak_test_main
                      nlohmann_json::nlohmann_json SQLite::SQLite3 fmt::fmt util)
target_include_directories(gpupeak_unit_tests PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/preload)
set_target_properties(gpupeak_unit_tests PROPERTIES UNITY_BUILD ${GPUPEAK_UNITY} UNITY_BUILD_BATCH_SIZE 12)
gpupeak_catch_tests(gpupeak_unit_tests unit)
set_source_files_properties(inline_sample.cc PROPERTIES COMPILE_OPTIONS "-g;-O2" SKIP_PRECOMPILE_HEADERS ON)
