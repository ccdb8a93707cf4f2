#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "collector/files/regular_file.h"
#include "collector/log/log_reader.h"
#include "collector/log/mapped_file.h"
#include "collector/log/onnx_runtime.h"
#include "collector/text/error.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

constexpr std::string_view kProfile = "ort.profile";
constexpr std::string_view kProfileOff = "ort.profile.off";
constexpr uint64_t kNsPerMicrosecond = 1000;
/// A node's begin and its length are both cut to whole microseconds: it may have ended so much
/// later.
constexpr uint64_t kCutMicroseconds = 2;
/// ONNX Runtime keeps no more events of a session.
constexpr uint64_t kMostEvents = 1'000'000;
constexpr size_t kMostSpans = 4'000'000;
/// What follows a node's name; spans of other kinds have other endings.
constexpr std::string_view kSuffix = "_kernel_time";

/// The place behind `"key" :`, with spaces or without; npos: it is not there.
size_t value_of(std::string_view line, std::string_view key, size_t from = 0) {
  size_t at = line.find(fmt::format("\"{}\"", key), from);
  if (at == std::string_view::npos) return at;
  at = line.find(':', at + key.size() + 2);
  return at == std::string_view::npos ? at : line.find_first_not_of(" :", at);
}

std::optional<uint64_t> number(std::string_view line, std::string_view key) {
  const size_t at = value_of(line, key);
  uint64_t value = 0;
  if (at == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// The text at a key. ONNX Runtime does not escape texts, so it ends where `end` begins, which
/// always follows it.
std::optional<std::string_view> text(std::string_view line, std::string_view key,
                                     std::string_view end, size_t from = 0) {
  const size_t at = value_of(line, key, from);
  if (at == std::string_view::npos || line[at] != '"') return std::nullopt;
  const size_t last = line.find(end, at + 1);
  if (last == std::string_view::npos) return std::nullopt;
  return line.substr(at + 1, last - at - 1);
}

/// A line of the file: one event.
struct Line {
  uint64_t pid = 0, tid = 0, begin_us = 0, long_us = 0;
  std::string name;  ///< empty: the event is no run of a node
};

std::optional<Line> read_line(std::string_view line) {
  const auto pid = number(line, "pid"), tid = number(line, "tid"), begin = number(line, "ts"),
             duration = number(line, "dur");
  const size_t args = line.find("\"args\"");
  const bool whole = line.ends_with("}}") || line.ends_with("}},");
  if (!pid || !tid || !begin || !duration || args == std::string_view::npos || !whole)
    return std::nullopt;
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / (4 * kNsPerMicrosecond);
  if (*begin > kMost || *duration > kMost || *tid > UINT32_MAX) return std::nullopt;
  Line read{*pid, *tid, *begin, *duration, {}};
  const auto kind = text(line, "cat", "\"");
  if (!kind || *kind != "Node") return read;
  const auto name = text(line, "name", "\",\"args\"");
  if (!name) return std::nullopt;
  if (!name->ends_with(kSuffix)) return read;
  read.name = name->substr(0, name->size() - kSuffix.size());
  if (const auto op = text(line, "op_name", "\"", args)) read.name += fmt::format(" ({})", *op);
  return read;
}

/// When a profile's clock was 0, in nanoseconds since the log's start, and by how much that may be
/// wrong.
struct ProfileClock {
  int64_t zero_ns = 0;
  uint64_t error_ns = 0;
};

/// Adds the spans and problems of one file to `profiles`.
class Reader {
 public:
  Reader(const LogReader& log, uint64_t session, const ProfileClock& clock, NodeProfiles& profiles)
      : log_(log), session_(session), clock_(clock), profiles_(profiles) {
    for (uint32_t i = 0; i < profiles.names.size(); ++i) names_.emplace(profiles.names[i], i);
  }

  /// `name` is for problems.
  void read(std::string_view text, const std::string& name) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      take(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    tell(name);
  }

 private:
  void take(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line == "[") return;
    if (line == "]") {
      ended_ = true;
      return;
    }
    const std::optional<Line> event = read_line(line);
    if (!event) {
      ++damaged_;
      return;
    }
    ++events_;
    if (event->pid != log_.header().pid) {
      ++foreign_;
    } else if (!event->name.empty()) {
      add(*event);
    }
  }

  void add(const Line& event) {
    ++nodes_;
    // A length that is cut to whole microseconds may be one too short. So a span that is shorter
    // than that and the clock's error has no certain place.
    if (event.long_us * kNsPerMicrosecond <= kNsPerMicrosecond + clock_.error_ns) {
      ++short_;
      return;
    }
    const auto at = [&](uint64_t us) {
      return clock_.zero_ns + static_cast<int64_t>(us * kNsPerMicrosecond);
    };
    if (profiles_.spans.size() >= kMostSpans || at(event.begin_us) < 0) {
      ++left_out_;
      return;
    }
    const auto [entry, added] =
        names_.try_emplace(event.name, static_cast<uint32_t>(profiles_.names.size()));
    if (added) profiles_.names.push_back(event.name);
    const uint64_t end_us = event.begin_us + event.long_us + kCutMicroseconds;
    profiles_.spans.push_back({log_.clock().to_ticks(at(event.begin_us)),
                               log_.clock().to_ticks(at(end_us)), static_cast<uint32_t>(event.tid),
                               entry->second, session_});
  }

  void tell(const std::string& name) {
    const auto problem = [&](std::string text) {
      profiles_.problems.push_back("ONNX Runtime's profile " + name + " " + std::move(text));
    };
    if (!ended_)
      problem(events_ == 0 ? "has no events: the session was not released, or the program killed"
                           : "is cut off: its last nodes are not shown");
    if (damaged_ > 0) problem(fmt::format("has {} lines that make no sense", damaged_));
    if (foreign_ > 0) problem("is another process's");
    if (events_ >= kMostEvents)
      problem("is full: ONNX Runtime keeps a million events, and later nodes are not shown");
    if (short_ > 0) {
      problem(fmt::format(
          "has {} of {} node runs that are shorter than the clocks are joined ({:.1f} us): they "
          "have no phase",
          short_, nodes_, static_cast<double>(kNsPerMicrosecond + clock_.error_ns) / 1e3));
    }
    if (left_out_ > 0)
      problem(fmt::format("has {} node runs too many, or from before the log", left_out_));
  }

  const LogReader& log_;
  const uint64_t session_;
  const ProfileClock clock_;
  NodeProfiles& profiles_;
  std::map<std::string, uint32_t> names_;
  uint64_t events_ = 0, nodes_ = 0, damaged_ = 0, foreign_ = 0, short_ = 0, left_out_ = 0;
  bool ended_ = false;
};

/// "SESSION ZERO_NS ERROR_NS PATH".
struct ProfileFact {
  uint64_t session = 0, zero_ns = 0, error_ns = 0;
  std::string path;
};
std::optional<ProfileFact> parse(std::string_view fact) {
  ProfileFact parsed;
  const char* at = fact.data();
  const char* const end = at + fact.size();
  for (uint64_t* field : {&parsed.session, &parsed.zero_ns, &parsed.error_ns}) {
    const auto [next, error] = std::from_chars(at, end, *field);
    if (error != std::errc() || next == end || *next != ' ') return std::nullopt;
    at = next + 1;
  }
  if (parsed.zero_ns > INT64_MAX || parsed.error_ns > INT32_MAX) return std::nullopt;
  parsed.path.assign(at, end);
  return parsed;
}

/// Whether ONNX Runtime would name a profile so. Nothing else is opened, whatever a log says.
bool is_named_as_profile(const std::string& path) {
  return path.starts_with('/') && path.ends_with(".json");
}

/// The path where the profile was written, or else beside the log.
std::string where_it_is(const LogReader& log, const std::string& written) {
  return access(written.c_str(), R_OK) == 0 ? written : path_beside(log.path(), written);
}

/// Opens the files that a log names. Each file is read once, whatever names it has, and the bytes
/// of all are bounded.
class ProfileFiles {
 public:
  /// Throws LogError if the file may not be read.
  std::unique_ptr<MappedFile> open(const LogReader& log, const std::string& written) {
    if (!is_named_as_profile(written)) throw LogError("it has not the name of a profile", 0);
    const std::string path = where_it_is(log, written);
    const FileState state = state_of_file(path);
    if (!read_.insert({state.device, state.inode}).second) throw LogError("it was read before", 0);
    auto file = std::make_unique<MappedFile>(path, left_bytes_);
    left_bytes_ -= file->bytes();
    return file;
  }

 private:
  std::set<std::pair<uint64_t, uint64_t>> read_;
  uint64_t left_bytes_ = uint64_t{4} << 30;  // a full one has some 300 MiB
};

/// On one thread a span ends before the next one begins, or lies around it. Ends may be late by
/// `slack`. Spans that overlap by more are damaged.
void nest(NodeProfiles& profiles, uint64_t slack) {
  std::vector<NodeSpan>& spans = profiles.spans;
  std::ranges::stable_sort(spans, {}, [](const NodeSpan& of) {
    return std::pair(of.begin_ticks, UINT64_MAX - of.end_ticks);
  });
  std::vector<NodeSpan> kept;
  kept.reserve(spans.size());
  // By thread: the spans around this one, as indexes into `kept`.
  std::map<uint32_t, std::vector<size_t>> open;
  for (NodeSpan& span : spans) {
    std::vector<size_t>& around = open[span.tid];
    while (!around.empty() && kept[around.back()].end_ticks <= span.begin_ticks + slack) {
      NodeSpan& last = kept[around.back()];
      last.end_ticks = std::min(last.end_ticks, span.begin_ticks);
      around.pop_back();
    }
    if (!around.empty()) {
      const uint64_t end = kept[around.back()].end_ticks;
      if (span.end_ticks > end + slack) continue;
      span.end_ticks = std::min(span.end_ticks, end);
    }
    around.push_back(kept.size());
    kept.push_back(span);
  }
  if (kept.size() < spans.size()) {
    profiles.problems.push_back(
        fmt::format("ONNX Runtime's profiles have {} node runs that overlap others of their thread",
                    spans.size() - kept.size()));
  }
  spans = std::move(kept);
}

}  // namespace

NodeProfiles read_ort_profiles(const LogReader& log) {
  NodeProfiles profiles;
  const Definitions& definitions = log.definitions();
  std::map<std::string, int> told;  // how often each file was
  ProfileFiles files;
  for (const auto& [key, value] : definitions.facts()) {
    if (const auto fact = key == kProfile ? parse(value) : std::nullopt) ++told[fact->path];
  }
  for (const auto& [key, value] : definitions.facts()) {
    if (key == kProfileOff)
      profiles.problems.push_back("ONNX Runtime's profile: " + definitions.shown(value));
    if (key != kProfile) continue;
    const std::optional<ProfileFact> fact = parse(value);
    if (!fact) {
      profiles.problems.push_back("the log's words on ONNX Runtime's profile make no sense");
      continue;
    }
    if (told[fact->path] > 1) {  // one of the two is another session's
      profiles.problems.push_back(
          fmt::format("ONNX Runtime's profile: session {}: its file could not be told from others",
                      fact->session));
      continue;
    }
    const std::string name = definitions.shown(fact->path);
    const ProfileClock clock{static_cast<int64_t>(fact->zero_ns - log.header().start_monotonic_ns),
                             fact->error_ns};
    try {
      const std::unique_ptr<MappedFile> file = files.open(log, fact->path);
      Reader(log, fact->session, clock, profiles)
          .read({reinterpret_cast<const char*>(file->data()), file->bytes()}, name);
      file->require_whole();
    } catch (const LogError&) {
      profiles.problems.push_back("ONNX Runtime's profile " + name +
                                  " is empty or cannot be read: no nodes of session " +
                                  std::to_string(fact->session));
    }
  }
  if (!profiles.spans.empty())
    nest(profiles, log.clock().ticks_per_second() * kCutMicroseconds / 1'000'000 + 1);
  return profiles;
}

}  // namespace gpupeak::collector
