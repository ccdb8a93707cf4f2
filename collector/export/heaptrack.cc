// What heaptrack's interpreter writes: strings, instructions and traces once, then every event. All
// numbers are hexadecimal. Indices count from 1, those of allocations from 0.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "collector/analyze/analyze.h"
#include "collector/export/export.h"
#include "collector/replay/big_arrays.h"
#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/text/function_names.h"
#include "gpupeak/pages.h"

namespace gpupeak::collector {
namespace {

/// Numbers the different pairs of size and stack in the order in which they come. A log has
/// millions of pairs, which are looked up in no order.
class Allocations {
 public:
  /// The number of the pair. A new pair gets the next number, which is count() before the call.
  uint32_t number(uint64_t bytes, uint32_t stack) {
    if (size_t{2} * count_ >= size()) grow();
    Entry& entry = find(bytes, stack);
    if (entry.number_plus_1 == 0) entry = {bytes, stack, ++count_};
    return entry.number_plus_1 - 1;
  }
  uint32_t count() const { return count_; }
  /// Fetches the cache line that number() will need.
  void prefetch(uint64_t bytes, uint32_t stack) const {
    prefetch_line(&entries_[place_of(bytes, stack)]);
  }

 private:
  struct Entry {
    uint64_t bytes;
    uint32_t stack, number_plus_1;  // 0: free
  };
  static constexpr unsigned kFirstBits = 12;

  size_t size() const { return size_t{1} << bits_; }
  size_t place_of(uint64_t bytes, uint32_t stack) const {
    const uint64_t key = bytes ^ static_cast<uint64_t>(stack) << 32;
    return static_cast<size_t>(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits_));
  }
  Entry& find(uint64_t bytes, uint32_t stack) {
    size_t at = place_of(bytes, stack);
    while (entries_[at].number_plus_1 != 0 &&
           (entries_[at].bytes != bytes || entries_[at].stack != stack)) {
      at = (at + 1) & (size() - 1);
    }
    return entries_[at];
  }
  void grow() {
    const size_t old_size = size();
    ++bits_;
    const ZeroedTable<Entry> old = std::exchange(entries_, ZeroedTable<Entry>(size()));
    for (size_t i = 0; i < old_size; ++i) {
      if (old[i].number_plus_1 != 0) find(old[i].bytes, old[i].stack) = old[i];
    }
  }

  unsigned bits_ = kFirstBits;
  ZeroedTable<Entry> entries_{size_t{1} << kFirstBits};
  uint32_t count_ = 0;
};

class Heaptrack : public ReplayObserver {
 public:
  Heaptrack(Profile& profile, ScopeId scope, std::ostream& out)
      : profile_(profile), scope_(scope), out_(out), traces_(profile.definitions().nodes().size()) {
    // The version of heaptrack that would write this, and the version of its format.
    write("v 10400 2\nX {}\nI {:x} 0\n", command_text(run_of(profile.log())), kPageBytes);
  }

  void finish() {
    write_changes();
    // The samples may miss the peak, but the kernel has counted it.
    const uint64_t peak = profile_.log().counters().rss_peak_bytes;
    if (peak > rss_peak_) write("R {:x}\n", peak / kPageBytes);
    write("c {:x}\n", std::max<int64_t>(ms_of(profile_.replay().last_ticks()), 0));
    flush();
  }

 private:
  /// Text is written in large pieces: to write each line to the stream would take most of the time.
  template <class... Args>
  void write(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() >= kPiece) flush();
  }
  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  int64_t ms_of(uint64_t ticks) const {
    constexpr int64_t kNsPerMs = 1'000'000;
    return profile_.to_ns(ticks) / kNsPerMs;
  }
  void tell_time(int64_t ms) {
    if (ms <= ms_) return;
    ms_ = ms;
    write("c {:x}\n", ms);
  }

  void on_step(std::span<const PeakFinder::Change> step) override {
    for (const PeakFinder::Change& change : step) {
      const SiteContext& context = replay().sites().context_of(change.group);
      if (!counts_into(context, profile_.scope_info(scope_))) continue;
      const bool frees = change.count < 0;
      const auto bytes = static_cast<uint64_t>(frees ? -change.bytes : change.bytes);
      const uint32_t stack = replay().sites().info(change.group).stack;
      allocations_.prefetch(bytes, stack);
      changes_[change_count_++] = {bytes, stack, frees, ms_of(replay().last_ticks())};
      if (change_count_ == kChanges) write_changes();
    }
  }

  /// Writes events some time after they come, so that the cache lines for their numbers have
  /// arrived.
  void write_changes() {
    for (size_t i = 0; i < change_count_; ++i) {
      const Change& change = changes_[i];
      tell_time(change.ms);
      const uint32_t number = allocation(change.bytes, change.stack);
      fmt::format_to(std::back_inserter(text_), FMT_COMPILE("{} {:x}\n"), change.frees ? '-' : '+',
                     number);
    }
    change_count_ = 0;
    if (text_.size() >= kPiece) flush();
  }

  void on_sample(const SampleEvent& sample) override {
    write_changes();
    tell_time(ms_of(replay().last_ticks()));
    rss_peak_ = std::max(rss_peak_, sample.rss);
    write("R {:x}\n", sample.rss / kPageBytes);
  }

  uint32_t allocation(uint64_t bytes, uint32_t stack) {
    const uint32_t known = allocations_.count(), number = allocations_.number(bytes, stack);
    if (number < known) return number;
    const size_t of_trace = trace(stack);
    write("a {:x} {:x}\n", bytes, of_trace);
    return number;
  }

  /// Frames to leave out: our own code, and the interpreter's if the log has Python's frames.
  bool is_left_out(uint32_t node) {
    const ResolvedAddress& resolved = profile_.symbolizer().resolve(node);
    return resolved.frames.front().module.starts_with(kOwnModule) ||
           (has_python_ && resolved.is_interpreter());
  }

  /// Defines callers before the calls that they make. Works without recursion, since a damaged
  /// log's stack may be of any depth.
  size_t trace(uint32_t stack) {
    if (traces_[stack] != 0) return traces_[stack];
    const std::vector<StackNode>& nodes = profile_.definitions().nodes();
    std::vector<uint32_t> missing;
    uint32_t node = stack;
    for (; node != 0 && traces_[node] == 0; node = nodes[node].parent) missing.push_back(node);
    for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
      const size_t parent = nodes[*next].parent == 0 ? 0 : traces_[nodes[*next].parent];
      if (is_left_out(*next)) {
        traces_[*next] = parent;
        continue;
      }
      const size_t at = instruction(*next);
      write("t {:x} {:x}\n", at, parent);
      traces_[*next] = ++trace_count_;
    }
    return traces_[stack];
  }

  size_t instruction(uint32_t node) {
    const ResolvedAddress& resolved = profile_.symbolizer().resolve(node);
    if (const size_t* const known = value_in(instructions_, &resolved)) return *known;
    std::string line;
    for (const Frame& frame : resolved.frames) {
      const size_t function = string(frame_name(frame));
      const size_t file = frame.file.empty() ? 0 : string(frame.file);
      line += fmt::format(" {:x} {:x} {:x}", function, file, frame.line);
    }
    const Frame& first = resolved.frames.front();
    const size_t module = first.module.empty() ? 0 : string(first.module);
    write("i {:x} {:x}{}\n", first.address, module, line);
    return instructions_.emplace(&resolved, instructions_.size() + 1).first->second;
  }

  size_t string(const std::string& text) {
    const auto [entry, added] = strings_.try_emplace(text, strings_.size() + 1);
    if (added) write("s {}\n", text);
    return entry->second;
  }

  struct Change {
    uint64_t bytes;
    uint32_t stack;
    bool frees;
    int64_t ms;
  };
  static constexpr size_t kPiece = 64 << 10, kChanges = 64;

  Profile& profile_;
  const ScopeId scope_;
  const bool has_python_ = profile_.definitions().python_frames().size() > 1;
  std::ostream& out_;
  int64_t ms_ = 0;
  uint64_t rss_peak_ = 0;  // largest sample
  size_t trace_count_ = 0;
  std::vector<size_t> traces_;  // by node; 0: not yet defined
  Allocations allocations_;
  std::array<Change, kChanges> changes_;
  size_t change_count_ = 0;
  fmt::memory_buffer text_;
  std::unordered_map<const ResolvedAddress*, size_t> instructions_;
  std::unordered_map<std::string, size_t> strings_;
};

}  // namespace

void export_heaptrack(Profile& profile, const ExportOptions& options, std::ostream& out) {
  Heaptrack heaptrack(profile, profile.scope(options.scope), out);
  profile.replay_again(heaptrack, options.progress);
  heaptrack.finish();
}

}  // namespace gpupeak::collector
