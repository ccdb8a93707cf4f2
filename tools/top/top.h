// The parts of `top`: what it knows of each program, its frames as lines of text, and the terminal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collector/log/log_folder.h"
#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

using collector::FolderLog;

// One program: by the counters page of its log, which is read at each look, and by replays of the
// log, which are less frequent.

using TopCurve = collector::MemoryCurve;

/// What a replay of the log has found.
struct TopFindings {
  collector::Summary summary;
  std::map<int32_t, TopCurve> devices;
  TopCurve heap;
  double at_seconds = 0;   ///< end of the replay, since the recording began
  double cpu_seconds = 0;  ///< processor time of the replay
  uint64_t log_bytes = 0;
  std::string problem;  ///< why there is nothing
};

class TopProgram {
 public:
  /// `now`: seconds since 1970.
  void look(const FolderLog& log, double now);
  void take(std::shared_ptr<const TopFindings> findings) { findings_ = std::move(findings); }

  const FolderLog& log() const { return log_; }
  const TopFindings* findings() const { return findings_.get(); }
  /// Seconds since the recording began; if the program has ended, how long it ran; none: not known.
  std::optional<double> seconds() const;
  std::vector<int32_t> devices() const;
  const gpupeak_device_counters& device(int32_t number) const {
    return log_.head.counters.device[number];
  }
  const collector::DeviceInfo* info(int32_t number) const;
  uint64_t device_live() const;
  uint64_t device_peak() const;
  /// Whether the heap is counted from the program's start.
  bool has_heap() const;
  /// The host's peak as the last replay has it: of a program that was attached to, of what was
  /// recorded since then; nullptr: not known.
  const collector::Peak* host_peak() const;

  /// Memory over time, by the last replay and by the looks since then.
  TopCurve curve(int32_t device) const;
  TopCurve heap_curve() const;
  /// Recorded events a second; none before the second look.
  std::optional<double> events_per_second() const;
  /// Growth of a curve in bytes a second; none if too little was seen, or if the program has ended.
  std::optional<double> growth(const TopCurve& curve) const {
    return log_.is_live() ? collector::growth_of(curve) : std::nullopt;
  }
  std::optional<double> growth(int32_t device) const { return growth(curve(device)); }
  /// Seconds until the card is full at that growth; none if it does not grow, or if the card's size
  /// is not known.
  std::optional<double> seconds_to_full(int32_t device) const;
  /// Bytes in use on the device by the driver's last reading, plus what was tracked since; none if
  /// there is no reading.
  std::optional<uint64_t> used(int32_t device) const;

 private:
  FolderLog log_;
  double now_ = 0;
  std::shared_ptr<const TopFindings> findings_;
};

// The frames: a list of programs, and one program by itself. The screen draws them, --once prints
// them.

struct TopLine {
  enum class Look { kPlain, kBold, kFaint, kAlarm, kChosen };
  std::string text;
  Look look = Look::kPlain;
};
using TopLines = std::vector<TopLine>;

/// The line below a frame: what is to be said there, and which keys do what. The first keys are
/// those that are seen on the narrowest terminal. Without keys the user is typing a text.
struct TopFooter {
  struct Key {
    std::string key, does;
  };
  std::string said;
  std::vector<Key> keys;
};

enum class TopSort { kMemory, kPeak, kGrowth, kEvents, kName };
inline constexpr const char* kTopSorts[] = {"memory", "peak", "growth", "events", "name"};

struct TopView {
  TopSort sort = TopSort::kMemory;
  std::string filter;  ///< only rows that contain this text are shown
  /// Show the other holders. While a program runs: those at the peak instead of those now. When it
  /// has ended: those at its end instead of those at the peak.
  bool shows_other = false;
  bool has_choice = false;   ///< the user has chosen a row
  size_t chosen = 0;         ///< index of that row
  bool shows_stack = false;  ///< whether the stack of the chosen holder is shown
  bool is_replaying = false;
  double replay_seconds = 0;  ///< how long the replay takes, as estimated
};

/// The programs that pass the filter, in the order in which they are shown.
std::vector<const TopProgram*> arranged(const std::vector<TopProgram>& programs,
                                        const TopView& view);
/// The rows of `programs` begin at line `kTopListHead`.
inline constexpr size_t kTopListHead = 2;
TopLines list_text(const std::vector<const TopProgram*>& programs, size_t in_all,
                   const TopView& view, const collector::TextStyle& style);

/// Whether the holders that are shown are those of the peak. Those of a host that was attached to
/// always are: what it holds now is known only in part.
inline bool are_of_peak(const TopProgram& program, const TopView& view) {
  const bool knows_now = program.has_heap() || !program.devices().empty();
  return view.shows_other == program.log().is_live() || !knows_now;
}
/// The rows of holders that pass the filter; empty as long as nothing is known.
std::vector<const collector::Holder*> holders_of(const TopProgram& program, const TopView& view);
/// At most `rows` lines; holders get the lines that the other parts leave.
TopLines program_text(const TopProgram& program, const TopView& view, size_t rows,
                      const collector::TextStyle& style);

// What `top` and `view` share.

/// A chart of so many rows, a column for each value; the highest is written beside it.
void add_chart(const std::vector<uint64_t>& values, size_t rows, const collector::TextStyle& style,
               TopLines& lines);
/// Width of the labels beside a chart, and in front of each line of a program's page.
inline constexpr size_t kTopLabelColumns = 11;

/// Whether `text` contains `part`; upper and lower case are the same.
bool contains(const std::string& text, const std::string& part);

// The terminal, by ncurses: whole frames, and keys. Built where ncurses is.

enum class TopKey {
  kNone,
  kUp,
  kDown,
  kLeft,
  kRight,
  kHome,
  kEnd,
  kPageUp,
  kPageDown,
  kEnter,
  kBack,
  kErase,
  kResized,
  kGone,
  kText
};

struct TopInput {
  TopKey key = TopKey::kNone;
  char text = 0;  ///< of kText
};
/// How many rows a key goes down, of `page` rows at a time; 0: it does not move.
ptrdiff_t step_of(TopKey key, size_t page);
/// Takes a key of a text that the user types. False: the text is done.
bool type(const TopInput& input, std::string& text);

#ifdef GPUPEAK_HAS_NCURSES
class TopScreen {
 public:
  /// Takes the terminal over until the object is destroyed. Throws UsageError if it cannot.
  TopScreen();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  int columns() const;
  /// Lines of the frame. The footer has one more line, below the frame.
  size_t rows() const;
  /// The lines from `first` on, as many as there is room for; instead of them all keys, while the
  /// user has asked for these.
  void draw(const TopLines& lines, size_t first, const TopFooter& footer);
  /// Waits at most so long for a key. kNone: no key came; kGone: the terminal was closed. `?` shows
  /// all keys until the next key.
  TopInput wait(int milliseconds);

 private:
  TopInput next_key(int milliseconds);

  bool has_keys_ = false, shows_keys_ = false;
};
#else
/// No terminal can be taken over.
class TopScreen {
 public:
  TopScreen() {
    throw std::runtime_error(
        "the live screen is not in this build: it needs ncurses. On Debian or Ubuntu: apt-get "
        "install libncurses-dev, then build gpupeak from its source; --once prints one frame");
  }
  static int columns() { return 0; }
  static size_t rows() { return 0; }
  static void draw(const TopLines&, size_t, const TopFooter&) {}
  static TopInput wait(int) { return {}; }
};
#endif

}  // namespace gpupeak::tools
