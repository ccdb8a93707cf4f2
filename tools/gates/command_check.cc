#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <thread>

#include "collector/analyze/summary_parts.h"
#include "collector/files/fresh_file.h"
#include "collector/log/log_head.h"
#include "collector/run/run_logs.h"
#include "collector/summary/diff.h"
#include "collector/summary/gate.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/process_stat.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

using collector::Gate;
using collector::Summary;
using collector::UsageError;

struct CheckOptions : OutputOptions {
  std::string log;       ///< a log, or JSON that `report --json` wrote
  std::string baseline;  ///< a log or JSON; empty: none
  std::vector<std::string> max, max_increase;
  std::string max_growth;       ///< empty: none
  std::string junit, markdown;  ///< files; empty: none
  bool allow_no_device = false;
};

std::vector<Gate> parse_gates(const CheckOptions& options) {
  if (options.max_increase.empty() != options.baseline.empty())
    throw UsageError(
        "--baseline and --max-increase go together, such as --baseline old.json --max-increase "
        "device.peak_bytes=2%");
  if (options.max.empty() && options.max_increase.empty() && options.max_growth.empty())
    throw UsageError("nothing to check: give a limit, such as --max device.peak_bytes=8GiB");
  std::vector<Gate> gates;
  for (const std::string& text : options.max)
    gates.push_back(collector::parse_max(text, options.reading.sanitizer));
  for (const std::string& text : options.max_increase)
    gates.push_back(collector::parse_max_increase(text, options.reading.sanitizer));
  if (!options.max_growth.empty())
    gates.push_back(collector::parse_max("device.step_growth_bytes=" + options.max_growth));
  return gates;
}

/// Sites can be compared only if both sides have names, or neither has.
void say_nameless(const Summary& baseline, const Summary& summary) {
  for (const collector::PeakDiff& peak : collector::diff(baseline, summary).peaks) {
    const std::string text = collector::nameless_text(peak);
    if (text.empty()) continue;
    spdlog::warn("{}: {} (A: the baseline, B: this run)", peak.scope, text);
    return;
  }
}

int check(const CheckOptions& options) {
  std::vector<Gate> gates = parse_gates(options);
  for (const std::string& out : {options.out, options.junit, options.markdown})
    require_output(out, {options.log, options.baseline});
  collector::Options analysis{
      .reading = options.reading, .top = collector::kAllRows, .stacks = false};
  const bool devices_only = std::ranges::all_of(
      gates, [](const Gate& gate) { return collector::is_device_metric(gate.metric); });
  if (devices_only && options.markdown.empty())  // Markdown shows the host's figures as well
    analysis.reading.heap = collector::HeapReading::kNone;
  ProgressBar bar;
  Summary summary = collector::load_run_figures(options.log, analysis, bar.callback());
  if (!options.max_growth.empty() && summary.devices.empty()) {
    gates.back() = collector::parse_max("host.step_growth_bytes=" + options.max_growth);
    analysis.reading = options.reading;
    summary = collector::load_run_figures(options.log, analysis, bar.callback());
  }
  std::optional<Summary> baseline;
  if (!options.baseline.empty())
    baseline = collector::load_run_figures(options.baseline, analysis, bar.callback());
  bar.clear();
  if (baseline) say_nameless(*baseline, summary);
  const collector::ViewStyle style = view_style(options);
  const std::vector<collector::GateResult> results = collector::check_gates(
      gates, summary, baseline ? &*baseline : nullptr,
      options.allow_no_device ? collector::NoDevice::kIsZero : collector::NoDevice::kFails, style);
  write_output(options.out,
               [&](std::ostream& out) { collector::write_gates(summary, results, out, style); });
  const auto junit = [&](std::ostream& out) { collector::write_junit(summary, results, out); };
  if (!options.junit.empty()) write_output(options.junit, junit);
  const auto rows = [&](std::ostream& out) { collector::write_markdown(summary, results, out); };
  if (!options.markdown.empty()) collector::append_to(options.markdown, rows);
  if (!collector::all_passed(results)) return kGateFailed;
  return strict_code(options.strict, is_whole(summary) && (!baseline || is_whole(*baseline)));
}

struct MetricsOptions : OutputOptions {
  std::vector<std::string> logs;  ///< or JSON that `report --json` wrote
  std::string format = "text";    ///< one of metrics_formats()
  std::vector<std::string> names, labels;
  std::string benchmark;  ///< empty: the program's name
};

int metrics(const MetricsOptions& options) {
  const collector::MetricsChoice choice{options.names, options.benchmark,
                                        labels_of(options.labels, options.reading.sanitizer)};
  require_output(options.out, options.logs);
  // The figures alone.
  collector::Options analysis{.reading = options.reading, .top = 0, .stacks = false};
  analysis.reading.search.files = false;
  if (!options.names.empty() && std::ranges::all_of(options.names, collector::is_device_metric))
    analysis.reading.heap = collector::HeapReading::kNone;
  std::vector<collector::Summary> runs;
  ProgressBar bar;
  for (const std::string& log : options.logs)
    runs.push_back(collector::load_run_figures(log, analysis, bar.callback()));
  bar.clear();
  write_output(options.out, [&](std::ostream& out) {
    collector::write_metrics(runs, options.format, choice, out);
  });
  return strict_code(options.strict, are_whole(runs));
}

using collector::Gate;
using collector::LogHead;

struct WatchOptions {
  std::string target;  ///< a process id or a log
  std::vector<std::string> max;
  std::string max_growth;        ///< empty: none
  double every = 0.1, wait = 0;  ///< seconds
  bool quiet = false, strict = false;
  TextOptions text;
};

using Clock = std::chrono::steady_clock;

class Watch {
 public:
  Watch(const WatchOptions& options, std::string path)
      : options_(options), path_(std::move(path)), style_(style_for(1, options.text)) {
    for (const std::string& text : options.max) add_gate(text);
    if (!options.max_growth.empty())
      growth_ = {collector::parse_max("device.step_growth_bytes=" + options.max_growth)};
    if (gates_.empty() && growth_.empty())
      throw collector::UsageError(
          "nothing to watch: give a limit, such as --max device.peak_bytes=8GiB");
  }

  int run() {
    LogHead head = first_head();
    for (;;) {
      const bool ended = has_ended(head), is_last = ended || is_abandoned(head);
      std::optional<std::string> broken = first_broken(head);
      if (!broken) broken = growing(head, is_last);
      if (broken) {
        std::cout << *broken << std::endl;
        return kGateFailed;
      }
      if (is_last) return report_end(head, ended);
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.every));
      head = collector::read_head(path_);
    }
  }

 private:
  void add_gate(const std::string& text) {
    Gate gate = collector::parse_max(text);
    const std::vector<std::string> known = collector::counter_metrics();
    if (std::find(known.begin(), known.end(), gate.metric) == known.end()) {
      throw collector::UsageError("'{}' cannot be watched while the program runs{}",
                                  collector::escape(gate.metric),
                                  collector::did_you_mean(gate.metric, known));
    }
    const bool a_place = gate.where.empty() || (collector::is_device_metric(gate.metric) &&
                                                collector::is_whole_device(gate.where));
    if (!a_place) {
      throw collector::UsageError("'{}': only a metric of a GPU has a place, and that is device:N",
                                  collector::escape(text));
    }
    gates_.push_back(std::move(gate));
  }

  /// The log's head. Waits for the log, since the program may be about to start.
  LogHead first_head() {
    wait_until(options_.wait, std::chrono::milliseconds(100), [&] {
      try {
        collector::read_head(path_);
        return true;
      } catch (const collector::LogError&) {
        return false;
      }
    });
    return collector::read_head(path_);
  }

  /// The devices that a gate is about: one GPU, or each that has memory; -1: the host.
  std::vector<int32_t> places_of(const Gate& gate, const LogHead& head) const {
    if (!collector::is_device_metric(gate.metric)) return {-1};
    std::vector<int32_t> devices = collector::counted_devices(head.counters);
    std::erase_if(devices, [&](int32_t device) {
      return !gate.where.empty() && gate.where != collector::ScopeKey::device(device).text();
    });
    return devices;
  }

  std::string value_text(const Gate& gate, int32_t device, uint64_t value) const {
    return fmt::format("{}{} is {} ({} bytes)", gate.metric,
                       device >= 0 ? fmt::format(" of GPU {}", device) : "",
                       collector::size_text(value, style_), collector::grouped(value));
  }

  std::optional<std::string> first_broken(const LogHead& head) const {
    for (const Gate& gate : gates_) {
      for (const int32_t device : places_of(gate, head)) {
        const std::optional<uint64_t> value = collector::counter_metric(head, gate.metric, device);
        if (!value) return fmt::format("FAIL  {} was not measured in this run", gate.metric);
        if (*value <= gate.limit) continue;
        return fmt::format("FAIL  {}, over the limit of {}; process {} {}",
                           value_text(gate, device, *value),
                           collector::size_text(gate.limit, style_), head.header.pid,
                           has_ended(head) ? "has ended" : "runs on");
      }
    }
    return std::nullopt;
  }

  /// What each step leaves is known from the log's events alone. They are read from time to time,
  /// for at most a twentieth of a processor, and in the end.
  std::optional<std::string> growing(const LogHead& head, bool is_last) {
    if (growth_.empty() || (Clock::now() < next_reading_ && !is_last)) return std::nullopt;
    const Clock::time_point began = Clock::now();
    collector::Options analysis{.reading = {}, .top = 1, .stacks = false};
    if (head.counters.device_events > 0) analysis.reading.heap = collector::HeapReading::kNone;
    const collector::Summary summary = collector::load_run_figures(path_, analysis);
    const Clock::duration took = Clock::now() - began;
    next_reading_ = Clock::now() + std::max<Clock::duration>(19 * took, std::chrono::seconds(1));
    growth_.front() = collector::parse_max((summary.devices.empty() ? "host" : "device") +
                                           (".step_growth_bytes=" + options_.max_growth));
    const collector::GateResult found =
        collector::check_gates(growth_, summary, nullptr, collector::NoDevice::kIsZero, style_)[0];
    if (found.passed) {
      grown_ = found.message;
      return std::nullopt;
    }
    std::string text = "FAIL  " + found.message;
    for (const std::string& reason : found.reasons) text += "\n      " + reason;
    return text;
  }

  static bool has_ended(const LogHead& head) {
    return head.counters.ended != 0 || head.counters.exit_kind != 0;
  }

  /// Whether the process is gone without an end in its log, and nothing has come for a while. It
  /// was killed, or it has another number in its own PID namespace and is not found in ours.
  bool is_abandoned(const LogHead& head) {
    const auto now = Clock::now();
    const uint64_t sign = head.counters.file_bytes + head.counters.device_events +
                          head.counters.heap_alloc_count + head.counters.end_ticks;
    if (sign != last_sign_) {
      last_sign_ = sign;
      last_change_ = now;
    }
    const bool alive = kill(static_cast<pid_t>(head.header.pid), 0) == 0 || errno == EPERM;
    return !alive && now - last_change_ > std::chrono::seconds(2);
  }

  int report_end(const LogHead& head, bool ended) const {
    if (!options_.quiet) {
      for (const Gate& gate : gates_) {
        const std::vector<int32_t> places = places_of(gate, head);
        if (places.empty())
          std::cout << "pass  " << gate.metric << ": no memory of that GPU was handed out\n";
        for (const int32_t device : places) {
          const uint64_t value = collector::counter_metric(head, gate.metric, device).value_or(0);
          std::cout << fmt::format("pass  {}, within the limit of {}\n",
                                   value_text(gate, device, value),
                                   collector::size_text(gate.limit, style_));
        }
      }
      if (!growth_.empty()) std::cout << "pass  " << grown_ << '\n';
      const std::string how = collector::exit_text(collector::run_end(head.counters));
      std::cout << (!ended        ? "the process is gone, its log has no end"
                    : how.empty() ? "the program has ended"
                                  : how)
                << std::endl;
    }
    const bool whole = ended && head.counters.dropped_events == 0;
    return strict_code(options_.strict, whole);
  }

  const WatchOptions& options_;
  const std::string path_;
  const collector::TextStyle style_;
  std::vector<Gate> gates_;
  std::vector<Gate> growth_;  ///< none or one, of what each step leaves
  std::string grown_;         ///< what was found of it
  Clock::time_point next_reading_ = Clock::now();
  uint64_t last_sign_ = 0;
  Clock::time_point last_change_ = Clock::now();
};

int watch(const WatchOptions& options) {
  return Watch(options, collector::log_of_target(options.target)).run();
}

}  // namespace

void add_check(CommandLine& line) {
  auto [verb, options] =
      line.add("check", "Exit with 1 if a run does not keep its memory limits", check,
               R"(  gpupeak check --max device.peak_bytes=8GiB bert.gplog
  gpupeak check --baseline before.gplog --max-increase device.peak_bytes=2% after.gplog)");
  add_required(verb, "log", options.log, "FILE", "A log, or JSON that `report --json` wrote");
  add_list(verb, "--max", options.max, "METRIC=SIZE",
           "A limit, such as device.peak_bytes=8GiB or device.peak_bytes@phase:load=2GiB "
           "(docs/check.md)");
  add_value(verb, "--baseline", options.baseline, "FILE", "An earlier run: a log or JSON");
  add_list(verb, "--max-increase", options.max_increase, "METRIC=PERCENT|SIZE",
           "A limit over the baseline, such as device.peak_bytes=2% or =64MiB");
  add_value(verb, "--max-growth", options.max_growth, "SIZE",
            "A limit on what GPU memory grows by at each step, or the host's of a program without");
  add_value(verb, "--junit", options.junit, "FILE", "Write the results as JUnit XML");
  add_value(verb, "--markdown", options.markdown, "FILE",
            "Append the results as Markdown, for instance to $GITHUB_STEP_SUMMARY");
  verb.add_flag("--json", options.json, "As JSON");
  verb.add_flag("--strict", options.strict,
                "Exit with 4 if all passed, but anything was lost, or the run has no end");
  verb.add_flag("--allow-no-device", options.allow_no_device,
                "A limit on device memory is kept if the run used no device");
  add_output(verb, options);
}

void add_metrics(CommandLine& line) {
  auto [verb, options] =
      line.add("metrics", "The figures alone, for scripts, CI services and dashboards", metrics,
               R"(  gpupeak metrics bert.gplog
  gpupeak metrics --format jsonl --label commit=1a2b3c bert.gplog >> history.jsonl)");
  add_required(verb, "log", options.logs, "FILE ...", "Logs, or JSON that `report --json` wrote");
  add_choice(verb, "--format", options.format, collector::metrics_formats(),
             "Form of the output; docs/ci.md says who reads which");
  add_list(verb, "--metric", options.names, "NAME", "Print this metric alone; may be repeated");
  add_list(verb, "--label", options.labels, "NAME=VALUE", "Added to the figures; may be repeated");
  add_value(verb, "--benchmark", options.benchmark, "NAME", "A name instead of the program's");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_reading(verb, options.reading);
}

void add_watch(CommandLine& line) {
  auto [verb, options] =
      line.add("watch", "Wait for the end of a run, or for a limit that it passes", watch,
               R"(  gpupeak watch --max device.peak_bytes=70GiB 4711 || kill 4711
  gpupeak watch --max-growth 0 train.gplog || kill 4711   grows at each step
  gpupeak watch --wait 10 --max device.peak_bytes=70GiB train.gplog)");
  add_process_or_log(verb, options.target);
  add_list(
      verb, "--max", options.max, "METRIC=SIZE",
      "A limit, such as device.peak_bytes=8GiB or device.peak_bytes@device:1=8GiB (docs/check.md)");
  add_value(verb, "--max-growth", options.max_growth, "SIZE",
            "A limit on what GPU memory grows by at each step, or the host's of a program without");
  add_number(verb, "--every", options.every, 0.01, 3600,
             "Look every so many seconds; no peak is missed between");
  verb.add_option("--wait", options.wait, "Wait so many seconds for the log to appear")
      ->check(between(0, 86400));
  verb.add_flag("-q,--quiet", options.quiet, "Print nothing but a limit that is passed");
  add_strict(verb, options.strict);
  add_text_options(verb, options.text);
}

}  // namespace gpupeak::tools
