// The sections of the text report, each as lines, with at most as many rows as are asked for.
// write_text puts them in order and makes them fit the screen.
//
// in    a Summary, and how many rows a section may have
// out   "FAILED ALLOCATIONS …", "PEAK COMPOSITION …", "PHASES …": lines of text
#pragma once

#include <string>
#include <vector>

#include "collector/summary/summary.h"
#include "collector/summary/verdict.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

/// As `rows`: the section is shown whole.
inline constexpr size_t kAllReportRows = SIZE_MAX;

class ReportSections {
 public:
  using Lines = std::vector<std::string>;

  ReportSections(const Summary& summary, const TextStyle& style);

  // Each section but the verdict begins with an empty line and its heading, and is empty if there
  // is nothing to say.
  /// `full`: also the warnings' texts and facts about the run.
  Lines verdict(bool full) const;
  /// Failures that are alike are one row of several lines.
  Lines failures(size_t rows) const;
  Lines tags(size_t rows) const;
  Lines devices(size_t rows) const;
  /// Who was in the pool of which much is idle at the device's peak, when it grew to its size.
  Lines grown_pool(const DeviceSummary& device, size_t rows) const;
  /// `scope`: "device:0", "device", "host", "host/pinned".
  Lines holders(const std::string& scope, const std::string& what, size_t rows) const;
  /// Settings that would lower the device's peak.
  Lines lowering(const DeviceSummary& device, size_t rows) const;
  Lines ledger(const DeviceSummary& device, size_t rows) const;
  Lines ledger_items(const DeviceSummary& device) const;
  Lines kinds() const;
  /// Resident memory of the host, by cause.
  Lines resident() const;
  /// The phases. Without `full`, those that every process has, and libraries' own, are left out.
  Lines phases(bool of_device, bool full, size_t rows) const;
  /// Phases by call: how many calls, and how they grew.
  Lines calls() const;
  /// Memory that was more at each end of a repeated phase.
  Lines growth(size_t rows) const;
  Lines arenas(size_t rows) const;
  Lines marks(size_t rows) const;
  Lines live_at_exit() const;
  Lines temporaries() const;
  /// Which verbs show more.
  Lines more() const;

  const Verdict& the_verdict() const { return verdict_; }

 private:
  void add_driver_pools(Lines& lines) const;
  std::string size(const std::optional<uint64_t>& bytes) const { return size_text(bytes, style_); }
  std::string heading(std::string_view name, const std::string& rest) const;
  std::string line(const std::string& text) const { return cut(text, width_, style_); }
  std::string row(uint64_t bytes, uint64_t whole, const std::string& count,
                  const std::string& title, const std::string& marks, size_t telling = 0) const;
  Lines failure(const FailureGroup& group, bool with_why) const;
  void add_wrapped(const std::string& text, Lines& lines) const;

  const Summary& summary_;
  const TextStyle& style_;
  const size_t width_, columns_;
  const Verdict verdict_;
};

}  // namespace gpupeak::collector
