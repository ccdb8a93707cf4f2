// Streams, events and capture. Work takes no time, so a synchronise only has pools give memory
// back.
#include "costs.h"
#include "export.h"

namespace fake_cuda {

Stream* stream_of(CUstream handle, bool& default_stream) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  default_stream =
      value <= reinterpret_cast<uintptr_t>(CU_STREAM_PER_THREAD);  // null, legacy, per-thread
  return default_stream ? nullptr : driver().streams.find(handle);
}

bool any_stream_captures(CUstreamCaptureMode mode) {
  bool found = false;
  driver().streams.for_each([&](const Stream& stream) {
    found =
        found || (stream.capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && stream.capture_mode == mode);
  });
  return found;
}

namespace {

bool valid(CUstream handle) {
  bool default_stream = false;
  return stream_of(handle, default_stream) != nullptr || default_stream;
}

CUresult create(CUstream* out, unsigned flags, int priority) {
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  if (!charge_stream(context->device, context)) return CUDA_ERROR_OUT_OF_MEMORY;
  Stream* const stream =
      driver().streams.add({.context = context, .flags = flags, .priority = priority});
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult destroy(CUstream handle) {
  Stream* const stream = driver().streams.find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  driver().streams.remove(stream);
  return CUDA_SUCCESS;
}

CUresult synchronize(CUstream handle) {
  bool default_stream = false;
  Stream* const stream = stream_of(handle, default_stream);
  if (stream == nullptr && !default_stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream != nullptr && stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const Context* const context = stream != nullptr ? stream->context : current_context();
  if (context == nullptr) return no_context();
  pools_give_back(context->device);
  return CUDA_SUCCESS;
}

CUresult query(CUstream handle) {
  return valid(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  bool default_stream = false;
  Stream* const stream = stream_of(handle, default_stream);
  if (default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  static uint64_t last_id = 0;
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream->capture_mode = mode;
  stream->capture_id = ++last_id;
  stream->graph = driver().graphs.add();
  return CUDA_SUCCESS;
}

CUresult end_capture(CUstream handle, CUgraph* out) {
  Stream* const stream = driver().streams.find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  *out = reinterpret_cast<CUgraph>(stream->graph);
  stream->graph = nullptr;
  return CUDA_SUCCESS;
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph) {
  bool default_stream = false;
  const Stream* const stream = stream_of(handle, default_stream);
  if (stream == nullptr && !default_stream) return CUDA_ERROR_INVALID_HANDLE;
  // The legacy stream synchronises with a capturing stream, so even a question is an error.
  if (default_stream && any_stream_captures(CU_STREAM_CAPTURE_MODE_GLOBAL)) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  *status = stream != nullptr ? stream->capture : CU_STREAM_CAPTURE_STATUS_NONE;
  if (*status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture_id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(stream->graph);
  return CUDA_SUCCESS;
}

CUresult capture_info_full(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                           CUgraph* graph, size_t* dependencies) {
  if (dependencies != nullptr) *dependencies = 0;
  return capture_info(handle, status, id, graph);
}

CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

CUresult get_flags(CUstream handle, unsigned* out) {
  if (!valid(handle)) return CUDA_ERROR_INVALID_HANDLE;
  const Stream* const stream = driver().streams.find(handle);
  *out = stream != nullptr ? stream->flags : 0;
  return CUDA_SUCCESS;
}

CUresult get_priority(CUstream handle, int* out) {
  if (!valid(handle)) return CUDA_ERROR_INVALID_HANDLE;
  const Stream* const stream = driver().streams.find(handle);
  *out = stream != nullptr ? stream->priority : 0;
  return CUDA_SUCCESS;
}

CUresult get_context(CUstream handle, CUcontext* out) {
  if (!valid(handle)) return CUDA_ERROR_INVALID_HANDLE;
  const Stream* const stream = driver().streams.find(handle);
  *out = handle_of(stream != nullptr ? stream->context : current_context());
  return CUDA_SUCCESS;
}

CUresult wait_event(CUstream handle, CUevent event) {
  return valid(handle) && driver().events.find(event) != nullptr ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_create(CUevent* out) {
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  *out = reinterpret_cast<CUevent>(driver().events.add({.context = context}));
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent handle) {
  Event* const event = driver().events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  driver().events.remove(event);
  return CUDA_SUCCESS;
}

CUresult event_check(CUevent event) {
  return driver().events.find(event) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_synchronize(CUevent handle) {
  const Event* const event = driver().events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  pools_give_back(event->context->device);
  return CUDA_SUCCESS;
}

CUresult elapsed(float* out, CUevent first, CUevent second) {
  if (event_check(first) != CUDA_SUCCESS || event_check(second) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_HANDLE;
  *out = 0.5f;
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuStreamCreate, "cuStreamCreate", 2000, create, (CUstream * out, unsigned flags),
                 (out, flags, 0))
FAKE_CUDA_EXPORT(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, create,
                 (CUstream * out, unsigned flags, int priority), (out, flags, priority))
FAKE_CUDA_EXPORT(cuStreamDestroy, "cuStreamDestroy", 2000, destroy, (CUstream stream), (stream))
FAKE_CUDA_EXPORT(cuStreamDestroy_v2, "cuStreamDestroy", 4000, destroy, (CUstream stream), (stream))
FAKE_CUDA_EXPORT(cuStreamSynchronize, "cuStreamSynchronize", 2000, synchronize, (CUstream stream),
                 (stream))
FAKE_CUDA_EXPORT_PER_THREAD(cuStreamSynchronize, _ptsz, "cuStreamSynchronize", 7000, synchronize,
                            (CUstream stream), (stream))
FAKE_CUDA_EXPORT(cuStreamQuery, "cuStreamQuery", 2000, query, (CUstream stream), (stream))
FAKE_CUDA_EXPORT_PER_THREAD(cuStreamQuery, _ptsz, "cuStreamQuery", 7000, query, (CUstream stream),
                            (stream))
FAKE_CUDA_EXPORT(cuStreamGetFlags, "cuStreamGetFlags", 5050, get_flags,
                 (CUstream stream, unsigned* out), (stream, out))
FAKE_CUDA_EXPORT_PER_THREAD(cuStreamGetFlags, _ptsz, "cuStreamGetFlags", 7000, get_flags,
                            (CUstream stream, unsigned* out), (stream, out))
FAKE_CUDA_EXPORT(cuStreamGetPriority, "cuStreamGetPriority", 5050, get_priority,
                 (CUstream stream, int* out), (stream, out))
FAKE_CUDA_EXPORT_PER_THREAD(cuStreamGetPriority, _ptsz, "cuStreamGetPriority", 7000, get_priority,
                            (CUstream stream, int* out), (stream, out))
FAKE_CUDA_EXPORT_BOTH(cuStreamGetCtx, "cuStreamGetCtx", 9020, get_context,
                      (CUstream stream, CUcontext* out), (stream, out))
FAKE_CUDA_EXPORT(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, wait_event,
                 (CUstream stream, CUevent event, unsigned), (stream, event))
FAKE_CUDA_EXPORT_PER_THREAD(cuStreamWaitEvent, _ptsz, "cuStreamWaitEvent", 7000, wait_event,
                            (CUstream stream, CUevent event, unsigned), (stream, event))

FAKE_CUDA_EXPORT_BOTH(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, begin_capture,
                      (CUstream stream), (stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
FAKE_CUDA_EXPORT_BOTH(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, begin_capture,
                      (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
FAKE_CUDA_EXPORT_BOTH(cuStreamEndCapture, "cuStreamEndCapture", 10000, end_capture,
                      (CUstream stream, CUgraph* out), (stream, out))
FAKE_CUDA_EXPORT_BOTH(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, capture_info,
                      (CUstream stream, CUstreamCaptureStatus* status),
                      (stream, status, nullptr, nullptr))
FAKE_CUDA_EXPORT_BOTH(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", 10010, capture_info,
                      (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
                      (stream, status, id, nullptr))
FAKE_CUDA_EXPORT_BOTH(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo", 11030, capture_info_full,
                      (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                       CUgraph* graph, const CUgraphNode**, size_t* count),
                      (stream, status, id, graph, count))
FAKE_CUDA_EXPORT_BOTH(cuStreamGetCaptureInfo_v3, "cuStreamGetCaptureInfo", 12030, capture_info_full,
                      (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                       CUgraph* graph, const CUgraphNode**, const void**, size_t* count),
                      (stream, status, id, graph, count))
FAKE_CUDA_EXPORT(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010,
                 exchange_capture_mode, (CUstreamCaptureMode * mode), (mode))

FAKE_CUDA_EXPORT(cuEventCreate, "cuEventCreate", 2000, event_create, (CUevent * out, unsigned),
                 (out))
FAKE_CUDA_EXPORT(cuEventDestroy, "cuEventDestroy", 2000, event_destroy, (CUevent event), (event))
FAKE_CUDA_EXPORT(cuEventDestroy_v2, "cuEventDestroy", 4000, event_destroy, (CUevent event), (event))
FAKE_CUDA_EXPORT(cuEventRecord, "cuEventRecord", 2000, event_check, (CUevent event, CUstream),
                 (event))
FAKE_CUDA_EXPORT_PER_THREAD(cuEventRecord, _ptsz, "cuEventRecord", 7000, event_check,
                            (CUevent event, CUstream), (event))
FAKE_CUDA_EXPORT_BOTH(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, event_check,
                      (CUevent event, CUstream, unsigned), (event))
FAKE_CUDA_EXPORT(cuEventQuery, "cuEventQuery", 2000, event_check, (CUevent event), (event))
FAKE_CUDA_EXPORT(cuEventSynchronize, "cuEventSynchronize", 2000, event_synchronize, (CUevent event),
                 (event))
FAKE_CUDA_EXPORT(cuEventElapsedTime, "cuEventElapsedTime", 2000, elapsed,
                 (float* out, CUevent first, CUevent second), (out, first, second))
FAKE_CUDA_EXPORT(cuEventElapsedTime_v2, "cuEventElapsedTime", 12080, elapsed,
                 (float* out, CUevent first, CUevent second), (out, first, second))

}  // namespace fake_cuda
