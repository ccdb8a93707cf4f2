// ONNX Runtime's sessions, numbered in the order of their creation, and its asynchronous runs.
// HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpupeak::preload {

/// The number of the session that is about to be created from `model`, which goes into the log.
uint64_t number_ort_session(std::string_view model);
void ort_session_created(const void* session, uint64_t number);
void ort_session_released(const void* session);
/// 0: created before recording began.
uint64_t ort_session_number(const void* session);

/// What ONNX Runtime is given in place of the program's callback and its argument.
struct OrtAsyncRun {
  void (*callback)(void* user_data, void* outputs, uint64_t output_count, void* status);
  void* user_data;
  uint64_t range;     ///< to end when the run has
  OrtAsyncRun* next;  ///< while it is free
};
/// nullptr if no memory could be had.
OrtAsyncRun* new_ort_async_run();
void free_ort_async_run(OrtAsyncRun* run);

/// In a forked child.
void reset_ort_sessions();

}  // namespace gpupeak::preload
