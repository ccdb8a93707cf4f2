#include "track/driver_readings.h"

#include "base/lock.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/driver.h"

namespace gpupeak::preload {
namespace {

constinit std::atomic<uint32_t> g_logged[GPUPEAK_LOG_MAX_DEVICES];

}  // namespace

constinit std::atomic<uint32_t> g_unread_peaks{0};
constinit uint64_t g_read_at[GPUPEAK_LOG_MAX_DEVICES];

void log_driver_reading(const DriverReading& reading) {
  introduce_device(reading.device);
  const uint32_t api = reading.call != nullptr ? api_of(*reading.call) : 0;
  const uint32_t stack = reading.call != nullptr ? capture_stack(reading.call->caller) : 0;
  const BookGuard guard;
  if (!guard) return;
  uint64_t& read_at = g_read_at[reading.device];
  const uint64_t live = counters().device[reading.device].total.live;
  if (live > read_at) read_at = live;
  g_unread_peaks &= ~(1u << reading.device);
  // If another thread's reading was logged in between, that one may be the newer.
  const bool overtaken = g_logged[reading.device]++ != reading.earlier_readings;
  const bool uncertain = overtaken || DeviceCall::begun() != reading.quiet_since;
  Record record(GPUPEAK_REC_DRIVER_READING);
  record.u(logged_device(reading.device)).u(reading.used).u(reading.source).u(reading.cause);
  record.u(reading.reserved_plus_1).u(reading.own_plus_1).u(reading.others_plus_1);
  record.u(reading.overlaps).u(uncertain).u(api).u(reading.name).u(stack).u(reading.processes);
  for (uint32_t i = 0; i < reading.processes; ++i)
    record.u(reading.other[i].pid).u(reading.other[i].bytes).u(reading.other[i].name);
  emit(record);
}

uint32_t readings_logged(int device) {
  return g_logged[device].load(std::memory_order_acquire);
}

void peak_is_not_readable(int device) {
  const BookGuard guard;
  if (!guard) return;
  g_read_at[device] = counters().device[device].total.peak;
  g_unread_peaks &= ~(1u << device);
}

void forget_readings() {
  for (uint64_t& read_at : g_read_at) read_at = 0;
  g_unread_peaks = 0;
  DeviceCall::forget();
}

}  // namespace gpupeak::preload
