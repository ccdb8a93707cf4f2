// The terminal of `top`, by ncurses: whole frames, and keys. Built where ncurses is.
#pragma once

#include "tools/top/text.h"

namespace gpupeak::tools {

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

}  // namespace gpupeak::tools
