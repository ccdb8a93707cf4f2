// Catch2's benchmarks: peak memory of each test case, on standard error. Include it in one file of
// the program, before Catch2 (v2 or v3), and run the program under gpupeak; without it nothing is
// printed.
#pragma once

#include <gpupeak/gpupeak.h>

#include <cstdio>
#include <string>
#if __has_include(<catch2/reporters/catch_reporter_event_listener.hpp>)
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using GpupeakListenerBase = Catch::EventListenerBase;
#else
#ifndef CATCH_CONFIG_EXTERNAL_INTERFACES
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#endif
#include <catch2/catch.hpp>
using GpupeakListenerBase = Catch::TestEventListenerBase;
#endif

class GpupeakListener : public GpupeakListenerBase {
 public:
  using GpupeakListenerBase::GpupeakListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    GpupeakListenerBase::testCaseStarting(test);
    gpupeak_phase_push(test.name.c_str());
    gpupeak_reset_window();
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    for (int device = 0; device < 8; ++device) {
      say(stats, GPUPEAK_DEVICE, device, "device:" + std::to_string(device));
    }
    say(stats, GPUPEAK_HEAP, 0, "host.heap");
    gpupeak_phase_pop();
    GpupeakListenerBase::testCaseEnded(stats);
  }

 private:
  static void say(const Catch::TestCaseStats& stats, gpupeak_what what, int device,
                  const std::string& scope) {
    gpupeak_usage usage;
    if (gpupeak_get_usage(what, device, &usage) == 0 || usage.window_peak_bytes == 0) return;
    fprintf(stderr, "%s: peak of %s: %llu bytes\n", stats.testInfo.name.c_str(), scope.c_str(),
            static_cast<unsigned long long>(usage.window_peak_bytes));
  }
};
CATCH_REGISTER_LISTENER(GpupeakListener)
