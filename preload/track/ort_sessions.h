// ONNX Runtime's sessions, numbered in the order of their creation, and its asynchronous runs.
// HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpupeak::preload {

/// Gives a number to the session that is about to be created, and logs it with `model`. 0: not
/// recording.
uint64_t number_ort_session(std::string_view model);
void ort_session_created(const void* session, uint64_t number);
void ort_session_released(const void* session);
/// The session's number; 0: it was created before recording began, or nothing is recorded.
uint64_t ort_session_number(const void* session);

/// ONNX Runtime gets this in place of the program's callback and its argument.
struct OrtAsyncRun {
  void (*callback)(void* user_data, void* outputs, uint64_t output_count, void* status);
  void* user_data;
  uint64_t range;     ///< the range that ends when the run ends
  OrtAsyncRun* next;  ///< the next free one, while this one is free
};
/// nullptr: no memory, or not recording.
OrtAsyncRun* new_ort_async_run();
void free_ort_async_run(OrtAsyncRun* run);

/// In a forked child.
void reset_ort_sessions();

}  // namespace gpupeak::preload
