// The first screen: how much, who, why, what next. One verdict for the summary after a run, the
// report and the page.
#include <sstream>

#include "analyzed_log.h"
#include "catch.h"
#include "collector/summary/run_text.h"
#include "collector/summary/verdict.h"
#include "collector/write/writers.h"
#include "log_builder.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

constexpr uint64_t kGiB = kMiB << 10;

Holder holder(std::string title, uint64_t bytes) {
  Holder row;
  row.title = std::move(title);
  row.kind = "device.linear";
  row.bytes = bytes;
  row.count = 1;
  return row;
}

/// 70 of 80 GiB handed out, 2 of the driver.
Summary full_card() {
  Summary summary;
  summary.log_path = "run.gplog";
  summary.run.end.kind = ExitKind::kExit;
  summary.run.duration_ns = 25'700'000'000;
  DeviceSummary device;
  device.name = "NVIDIA H100";
  device.total_bytes = 80 * kGiB;
  device.metrics["device.peak_bytes"] = 70 * kGiB;
  DeviceLedgerSummary ledger;
  ledger.source = "nvml";
  ledger.at_peak.used_bytes = 72 * kGiB;
  ledger.at_peak.tracked_bytes = 70 * kGiB;
  ledger.at_peak.rows = {{"context", static_cast<int64_t>(2 * kGiB)}, {"unexplained", 0}};
  device.ledger = ledger;
  summary.devices.push_back(device);
  Peak peak;
  peak.scope = "device:0";
  peak.bytes = 70 * kGiB;
  peak.phase = "load";
  peak.holders = {holder("load_weights load.cc:88 ← main", 40 * kGiB),
                  holder("workspace ← main", 20 * kGiB)};
  peak.other_bytes = 10 * kGiB;
  peak.other_sites = 5;
  summary.peaks.push_back(peak);
  return summary;
}

OutOfMemory failure(uint64_t bytes, std::string title) {
  OutOfMemory oom;
  oom.api = "cuMemAlloc_v2";
  oom.device = 0;
  oom.requested_bytes = bytes;
  oom.result = "CUDA_ERROR_OUT_OF_MEMORY";
  oom.live_bytes = 70 * kGiB;
  oom.driver_free_bytes = 8 * kGiB;
  oom.driver_total_bytes = 80 * kGiB;
  oom.largest_fit_bytes = 8 * kGiB;
  oom.title = std::move(title);
  oom.holders = {holder("load_weights load.cc:88 ← main", 40 * kGiB)};
  find_causes(oom);
  return oom;
}

void fail(Summary& summary, OutOfMemory oom) {
  summary.oom.push_back(std::move(oom));
  ++summary.oom_count;
}

std::string report(const Summary& summary, const TextStyle& style = {}) {
  std::ostringstream out;
  write_text(summary, out, style);
  return out.str();
}

std::string ending(const Summary& summary, const TextStyle& style = {}) {
  std::ostringstream out;
  write_short(summary, out, style);
  return out.str();
}

}  // namespace

TEST_CASE("verdict: how much of what, when", "[collector]") {
  const Summary summary = full_card();
  const Verdict verdict = verdict_of(summary, {});
  REQUIRE(verdict.sentences.size() == 1);
  CHECK(verdict.sentences[0].text ==
        "peak 70.0 GiB of 80.0 GiB on GPU 0 (H100) at +0.00 s, in load");
  CHECK_FALSE(verdict.sentences[0].alarm);
  CHECK(verdict.facts.find("no record lost") != std::string::npos);
}

TEST_CASE("verdict: the bar is the card", "[collector]") {
  const Summary summary = full_card();
  const Verdict verdict = verdict_of(summary, {});
  uint64_t sum = 0;
  for (const Verdict::Part& part : verdict.bar) sum += part.bytes;
  CHECK(sum == 80 * kGiB);
  CHECK(
      bar_legend(verdict.bar, {}) ==
      "load_weights load.cc:88 40.0 GiB · workspace 20.0 GiB · others 10.0 GiB · context and code "
      "2.00 GiB · free 8.00 GiB");
  CHECK(display_width(bar_text(verdict.bar, 40)) == 40);
  // A part of a thousandth is seen too.
  const std::vector<Verdict::Part> uneven = {{"a", 1}, {"b", 1}, {"free", 1'000'000, true}};
  CHECK(bar_text(uneven, 10) == "█▓········");
}

TEST_CASE("verdict: without a reading at the peak nothing is called free", "[collector]") {
  Summary summary = full_card();
  summary.devices[0].ledger->at_peak.tracked_bytes = kGiB;
  const Verdict verdict = verdict_of(summary, {});
  CHECK(verdict.bar.back().name == "free or the driver's");
  CHECK(ending(summary).find("nvidia-smi shows") == std::string::npos);
  CHECK(ending(summary, TextStyle{.whole_lines = true})
            .find("when 1.00 GiB of 70.0 GiB were handed out") != std::string::npos);
}

TEST_CASE("verdict: who was in a pool when it grew comes before what is idle since",
          "[collector]") {
  Summary summary = full_card();
  ArenaSummary pool;
  pool.name = "PyTorch";
  pool.device = 0;
  pool.reserved_peak_bytes = 60 * kGiB;
  pool.at_device_peak = ArenaSummary::Level{10 * kGiB, 60 * kGiB};
  pool.largest.in_use_bytes = 55 * kGiB;
  pool.largest.parts = {{"log_softmax ← cross_entropy q.py:62", 45 * kGiB, 3}};
  pool.largest.other_bytes = 10 * kGiB;
  summary.arenas = {pool};
  const std::string text = ending(summary);
  CHECK(text.find("in PyTorch's pool as it grew to 60.0 GiB at ") != std::string::npos);
  CHECK(text.find("45.0 GiB  75.0 %  log_softmax ← cross_entropy q.py:62") != std::string::npos);
  const std::string all = report(summary);
  CHECK(all.find("WHAT MADE THE POOL GROW") < all.find("PEAK COMPOSITION"));
  CHECK(all.find("more", all.find("WHAT MADE THE POOL GROW")) < all.find("PEAK COMPOSITION"));
  summary.arenas[0].at_device_peak->in_use_bytes = 50 * kGiB;  // they are there still
  CHECK(ending(summary).find("as it grew to") == std::string::npos);
}

TEST_CASE("verdict: a failed allocation comes first, with why", "[collector]") {
  Summary summary = full_card();
  summary.run.end.kind = ExitKind::kSignal;
  summary.run.end.code = 6;
  fail(summary, failure(9 * kGiB, "step ← main"));
  const TextStyle whole{.whole_lines = true};
  for (const std::string& text : {ending(summary, whole), report(summary, whole)}) {
    const size_t first = text.find("OUT OF MEMORY on GPU 0 (H100): 9.00 GiB asked, 8.00 GiB free");
    CHECK(first < 60);
    CHECK(text.find("this process holds 87.5 % of the card") != std::string::npos);
    CHECK(text.find("40.0 GiB of it by load_weights load.cc:88") != std::string::npos);
  }
  Summary larger = full_card();
  fail(larger, failure(100 * kGiB, "step ← main"));
  CHECK(report(larger).find("that is more than the card has, 80.0 GiB") != std::string::npos);
  CHECK(report(larger).find("and the program went on") != std::string::npos);
}

TEST_CASE("verdict: what a program only tried for does not come first", "[collector]") {
  OutOfMemory probe = failure(2 * kMiB, "probe");
  probe.result = "CUDA_ERROR_NOT_SUPPORTED";
  Summary summary = full_card();
  fail(summary, probe);
  const std::string went_on = report(summary, TextStyle{.whole_lines = true});
  CHECK(went_on.find("an allocation failed") == std::string::npos);
  CHECK(went_on.find("1 allocation was refused, not for want of memory, and the program went on") !=
        std::string::npos);
  summary.run.end = {ExitKind::kSignal, 6};  // it may be what ended it
  CHECK(report(summary).find("an allocation failed") < 60);
}

TEST_CASE("verdict: a request that is tried again stands once", "[collector]") {
  Summary summary = full_card();
  for (int i = 0; i < 3; ++i) {
    fail(summary, failure(9 * kGiB, "alloc_block ← step"));
    fail(summary, failure(5 * kGiB, "other ← step"));
  }
  fail(summary, failure(9 * kGiB, "alloc_block ← step"));
  const std::vector<FailureGroup> groups = fold_failures(summary);
  REQUIRE(groups.size() == 2);
  CHECK(groups.back().count == 4);
  CHECK(groups.back().last == &summary.oom.back());
  const std::string text = report(summary);
  CHECK(text.find("CUDA_ERROR_OUT_OF_MEMORY, 4 times") != std::string::npos);
  CHECK(text.find("at alloc_block ← step") == text.rfind("at alloc_block ← step"));
}

TEST_CASE("verdict: losses come before any figure", "[collector]") {
  Summary summary = full_card();
  summary.quality.exact = false;
  summary.quality.dropped_events = 12;
  const Verdict verdict = verdict_of(summary, {});
  CHECK(verdict.sentences.front().alarm);
  CHECK(verdict.sentences.front().text.starts_with("12 EVENTS LOST"));
  CHECK(verdict.facts.find("no record lost") == std::string::npos);
}

TEST_CASE("verdict: warnings are one line with a way to see them", "[collector]") {
  Summary summary = full_card();
  summary.quality.warnings = {{WarningCode::kLogCouldNotGrow, "one", ""},
                              {WarningCode::kStacksCut, "two", ""},
                              {WarningCode::kLogCouldNotGrow, "three", ""},
                              {WarningCode::kStacksCut, "four", ""}};
  CHECK(report(summary).find(
            "warnings: log could not grow, stacks cut (GP007 GP023)  gpupeak report --full "
            "run.gplog") != std::string::npos);
  std::ostringstream full;
  write_text(summary, full, {}, ReportLength::kFull);
  CHECK(full.str().find("GP007  three") != std::string::npos);
}

TEST_CASE("verdict: what to do next is made from the log", "[collector]") {
  Summary summary = full_card();
  summary.log_path = "my run.gplog";
  Holder& most = summary.peaks[0].holders[0];
  most.temporary = true;
  most.longest_life_ns = 64'000;
  most.title = "libx.so+0x200 ← main";
  most.parts = {{Frame{.module = "libx.so"}, 1}};
  most.module = "libx.so";
  summary.peaks[0].tags = {{"weights", 40 * kGiB, 1}, {"Others", 30 * kGiB, 6}};
  const std::string text = report(summary);
  CHECK(text.find("the peak was temporary: 40.0 GiB of it freed within 64 us") !=
        std::string::npos);
  CHECK(text.find(
            "66.7 % of it has no names, all in libx.so, which is stripped: its debug symbols") !=
        std::string::npos);
  CHECK(text.find("gpupeak tags 'my run.gplog'") != std::string::npos);
  CHECK(verdict_of(summary, {}).bar[0].name == "weights");
}

TEST_CASE("verdict: what is live at the end is said where it is most of the peak", "[collector]") {
  constexpr auto kSaid = "still live at the end: ";
  Summary summary = full_card();
  CHECK(ending(summary).find(kSaid) == std::string::npos);
  summary.devices[0].metrics["device.live_bytes"] = 36 * kGiB;
  for (const std::string& text : {ending(summary), report(summary)})
    CHECK(text.find("still live at the end: 36.0 GiB, 51.4 % as much as at the peak") !=
          std::string::npos);
  // What a pool keeps idle is no one's.
  ArenaSummary& arena = summary.arenas.emplace_back();
  arena.name = "PyTorch";
  arena.device = 0;
  arena.reserved_bytes = 30 * kGiB;
  arena.live_bytes = 28 * kGiB;
  CHECK(ending(summary).find(kSaid) == std::string::npos);
  summary.arenas.clear();
  summary.devices[0].metrics["device.live_bytes"] = 35 * kGiB;
  CHECK(ending(summary).find(kSaid) == std::string::npos);
  // Of a program that was ended all is live: that says nothing of it.
  summary.devices[0].metrics["device.live_bytes"] = 70 * kGiB;
  CHECK(ending(summary).find(kSaid) != std::string::npos);
  summary.run.end.kind = ExitKind::kSignal;
  CHECK(ending(summary).find(kSaid) == std::string::npos);
}

TEST_CASE("verdict: the library whose names are missing is named once, with what to do",
          "[collector]") {
  Summary summary = full_card();
  std::vector<Holder>& holders = summary.peaks[0].holders;
  REQUIRE(holders.size() >= 2);
  const auto unname = [&](size_t i, const std::string& library) {
    holders[i].title = library + "+0x" + std::to_string(200 + i);
    holders[i].parts = {{Frame{.module = library}, 1}};
    holders[i].module = library;
  };
  unname(0, "libx.so");
  unname(1, "liby.so");
  const std::string two = report(summary);
  CHECK(two.find("most in libx.so, which is stripped") != std::string::npos);
  CHECK(two.find("in liby.so") == std::string::npos);
  unname(1, "libx.so");
  summary.quality.warnings.push_back(
      {WarningCode::kModuleMissing, "/opt/libx.so cannot be read: …", "libx.so"});
  const std::string one = report(summary);
  const size_t at = one.find("all in libx.so, which is not here: gpupeak bundle");
  CHECK(at != std::string::npos);
  CHECK(one.find("has no names", at + 1) == std::string::npos);
}

TEST_CASE("write_text: one screen, whatever the log holds", "[collector]") {
  Summary summary = full_card();
  for (int i = 0; i < 40; ++i) {
    summary.peaks[0].holders.push_back(holder("site " + std::to_string(i), kMiB));
    summary.peaks[0].other_bytes -= kMiB;
    summary.peaks[0].tags.push_back({"tag " + std::to_string(i), kGiB, 1});
    PhaseSummary phase;
    phase.name = "phase " + std::to_string(i);
    phase.source = "nvtx";
    phase.metrics["device.peak_bytes"] = kGiB;
    phase.instances.emplace_back();
    summary.phases.push_back(phase);
    fail(summary, failure(9 * kGiB + static_cast<uint64_t>(i), "step ← main"));
    summary.devices[0].ledger->at_peak.rows.insert(summary.devices[0].ledger->at_peak.rows.begin(),
                                                   {"cause " + std::to_string(i), 1});
    summary.quality.warnings.push_back({WarningCode::kLogCouldNotGrow, "a message", ""});
  }
  Peak host = summary.peaks[0];
  host.scope = "host";
  summary.peaks.push_back(host);
  for (int i = 1; i < 8; ++i) {
    summary.devices.push_back(summary.devices[0]);
    summary.devices.back().ordinal = i;
  }
  const std::string text = report(summary);
  CHECK(lines_of(text).size() <= kReportLines);
  for (const char* section : {"FAILED ALLOCATIONS", "BY TAG", "PEAK COMPOSITION", "residual 0",
                              "WHAT NVIDIA-SMI SHOWS", "PHASES", "gpupeak report --full"})
    CHECK(text.find(section) != std::string::npos);
  CHECK(lines_of(ending(summary)).size() <= kShortLines + 7);
}

TEST_CASE("write_text: sizes are plain bytes where asked", "[collector]") {
  const std::string text = report(full_card(), TextStyle{.bytes = true});
  CHECK(text.find("75161927680") != std::string::npos);
  CHECK(text.find("GiB") == std::string::npos);
  CHECK(text.find("MiB") == std::string::npos);
}

TEST_CASE("writers: on a narrow terminal no line is wider, in a pipe none is cut", "[collector]") {
  Summary summary = full_card();
  fail(summary, failure(9 * kGiB, "step ← main"));
  summary.peaks[0].holders[0].title = std::string(300, 'x');
  for (const int width : {60, 80, 100, 170}) {
    const TextStyle style{.width = width};
    for (const std::string& text : {report(summary, style), ending(summary, style)}) {
      for (const std::string& line : lines_of(text))
        CHECK((display_width(line) <= static_cast<size_t>(width) ||
               line.find("next: ") != std::string::npos));
    }
  }
  const TextStyle pipe{.whole_lines = true};
  CHECK(report(summary, pipe).find(std::string(300, 'x')) != std::string::npos);
  CHECK(report(summary, pipe).find("…") == std::string::npos);
}

TEST_CASE("verdict: what was resident when looked at is not told as the most", "[collector]") {
  Summary summary;
  summary.log_path = "run.gplog";
  Peak peak;
  peak.scope = "host";
  peak.bytes = 80 * kMiB;
  peak.holders = {holder("main", 80 * kMiB)};
  summary.peaks.push_back(peak);
  summary.metrics["host.peak_bytes"] = peak.bytes;
  summary.metrics["host.resident.total_bytes"] = 40 * kMiB;
  summary.metrics["host.resident.heap_bytes"] = 40 * kMiB;
  const auto said = [&](uint64_t memory) {
    summary.metrics["host.memory.peak_bytes"] = memory;
    std::ostringstream whole;
    write_text(summary, whole, {.width = 200}, ReportLength::kFull);
    return ending(summary, {.width = 200}) + whole.str();
  };
  CHECK(said(40 * kMiB).find("resident at most 40.0 MiB: heap in use") != std::string::npos);
  CHECK(said(40 * kMiB).find("not looked at") == std::string::npos);
  const std::string late = said(130 * kMiB);
  CHECK(late.find("resident at most 130 MiB: not looked at 90.0 MiB · heap in use 40.0 MiB") !=
        std::string::npos);
  CHECK(late.find("at most 130 MiB, by cause") != std::string::npos);
  summary.quality.log_complete = false;
  CHECK(ending(summary, {.width = 200}).find("resident at most") == std::string::npos);
}

TEST_CASE("verdict: processes together have as much resident as one of them", "[collector]") {
  WholeRun run;
  run.processes.resize(2);
  run.processes[0].rss_peak_bytes = 80 * kMiB;
  run.metrics["host.pss.peak_bytes"] = 15 * kMiB;
  CHECK(peak_at_once_text(run, {}).starts_with("peak 80.0 MiB or more resident, of 2 processes"));
  run.metrics["host.pss.peak_bytes"] = 95 * kMiB;
  CHECK(peak_at_once_text(run, {}).starts_with("peak 95.0 MiB or more resident, of 2 processes"));
  // Of a run that used a GPU the host's row says the same.
  run.metrics["host.pss.peak_bytes"] = 15 * kMiB;
  run.processes[1].device_peak_bytes = kMiB;
  CHECK(process_rows(run, 2, {}).back().find("resident together 80.0 MiB or more") !=
        std::string::npos);
}

TEST_CASE("verdict: a row may have had what no look saw", "[collector]") {
  Holder row = holder("reserve", kGiB);
  row.kind = "host.mmap_anon";
  Metrics metrics{{"host.resident.mappings_bytes", 900 * kMiB},
                  {"host.resident.total_bytes", 903 * kMiB},
                  {"host.resident.files_bytes", 2 * kMiB}};
  CHECK(resident_at_most(row, metrics) == 900 * kMiB);
  metrics["host.memory.peak_bytes"] = 951 * kMiB;  // at the look: 901
  CHECK(resident_at_most(row, metrics) == 950 * kMiB);
}

TEST_CASE("verdict: where nothing is known of the host it is said why", "[collector]") {
  Summary summary;
  summary.log_path = "run.gplog";
  summary.quality.warnings = {{WarningCode::kProgramsOwnMalloc, "…", ""}};
  CHECK(ending(summary, {.width = 200})
            .find("and the heap was not measured: the program, or a library preloaded "
                  "before gpupeak's, brings its own malloc") != std::string::npos);
  summary.metrics["host.kind.heap.peak_bytes"] = kMiB;
  CHECK(ending(summary, {.width = 200})
            .find("and of the host each kind's peak was counted, and no sum") != std::string::npos);
}
