#include "tools/top/top.h"

#define NCURSES_NOMACROS
#include <curses.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <utility>

#include "collector/text/error.h"

namespace gpupeak::tools {
namespace {

constexpr short kAlarmColour = 1;
constexpr int kEscapeMilliseconds = 25;  // a key's bytes come sooner; a user does not notice it
constexpr int kControlC = 3, kEscape = 27, kDelete = 127, kBackspace = 8;

/// By TopLine::Look.
const attr_t kAttributes[] = {A_NORMAL, A_BOLD, A_DIM, A_BOLD | COLOR_PAIR(kAlarmColour),
                              A_REVERSE};

constexpr std::pair<int, TopInput> kKeys[] = {
    {KEY_UP, {TopKey::kUp}},           {KEY_DOWN, {TopKey::kDown}},
    {KEY_LEFT, {TopKey::kLeft}},       {KEY_RIGHT, {TopKey::kRight}},
    {KEY_HOME, {TopKey::kHome}},       {KEY_END, {TopKey::kEnd}},
    {KEY_PPAGE, {TopKey::kPageUp}},    {KEY_NPAGE, {TopKey::kPageDown}},
    {KEY_ENTER, {TopKey::kEnter}},     {'\n', {TopKey::kEnter}},
    {'\r', {TopKey::kEnter}},          {kEscape, {TopKey::kBack}},
    {KEY_BACKSPACE, {TopKey::kErase}}, {kDelete, {TopKey::kErase}},
    {kBackspace, {TopKey::kErase}},    {KEY_RESIZE, {TopKey::kResized}},
    {'\t', {TopKey::kText, '\t'}},     {kControlC, {TopKey::kText, 'q'}}};

/// Whether the terminal was closed. Waiting for a key then returns at once: without this check we
/// would ask again for ever.
bool is_gone() {
  pollfd terminal{STDIN_FILENO, POLLIN, 0};
  return poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

TopScreen::TopScreen() {
  // Block characters need UTF-8. A machine without other locales has it as C.UTF-8.
  const char* locale = setlocale(LC_CTYPE, "");
  if (locale == nullptr || strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0)
    setlocale(LC_CTYPE, "C.UTF-8");
  if (newterm(nullptr, stdout, stdin) == nullptr)
    throw collector::UsageError("this terminal is not known (TERM); --once prints one frame");
  raw();  // Ctrl-C comes as a key, so that the terminal is restored before we end
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
  set_escdelay(kEscapeMilliseconds);
  if (has_colors() == TRUE) {
    start_color();
    use_default_colors();
    init_pair(kAlarmColour, COLOR_RED, -1);
  }
}

TopScreen::~TopScreen() {
  endwin();
}

int TopScreen::columns() const {
  return std::max(getmaxx(stdscr), 20);
}

size_t TopScreen::rows() const {
  return static_cast<size_t>(std::max(getmaxy(stdscr) - 1, 1));
}

void TopScreen::draw(const TopLines& lines, size_t first, const TopFooter& footer) {
  werase(stdscr);
  const auto width = static_cast<size_t>(columns());
  has_keys_ = !footer.keys.empty();
  std::string below = footer.said;
  TopLines keys;
  for (const auto& [key, does] : footer.keys) {
    keys.push_back({collector::left("  " + key, 12) + does});
    const std::string next = below + (below.empty() ? "" : "  ") + key + ": " + does;
    // What does not fit is on the page of all keys.
    if (collector::display_width(next) + 2 < width) below = next;
  }
  const TopLines& shown = shows_keys_ && has_keys_ ? keys : lines;
  if (&shown == &keys) first = 0;
  for (size_t row = 0; row < rows() && first + row < shown.size(); ++row) {
    const TopLine& line = shown[first + row];
    const std::string text = collector::fit(line.text, width);
    wattrset(stdscr, static_cast<int>(kAttributes[static_cast<size_t>(line.look)]));
    mvwaddstr(stdscr, static_cast<int>(row), 0, text.c_str());
  }
  wattrset(stdscr, A_REVERSE);
  const std::string text = collector::left(collector::fit(" " + below, width - 1), width - 1);
  mvwaddstr(stdscr, static_cast<int>(rows()), 0, text.c_str());
  wattrset(stdscr, A_NORMAL);
  wrefresh(stdscr);
}

TopInput TopScreen::wait(int milliseconds) {
  const TopInput input = next_key(milliseconds);
  const bool is_key =
      input.key != TopKey::kNone && input.key != TopKey::kGone && input.key != TopKey::kResized;
  if (!is_key || !has_keys_) return input;
  const bool asks = input.key == TopKey::kText && input.text == '?';
  const bool shown = shows_keys_;
  shows_keys_ = asks && !shown;
  const bool quits = input.key == TopKey::kText && input.text == 'q';
  return asks || (shown && !quits) ? TopInput{} : input;
}

TopInput TopScreen::next_key(int milliseconds) {
  wtimeout(stdscr, milliseconds);
  const int key = wgetch(stdscr);
  if (key == ERR) return is_gone() ? TopInput{TopKey::kGone} : TopInput{};
  for (const auto& [code, input] : kKeys)
    if (key == code) return input;
  const bool printable = key >= ' ' && key < kDelete;
  return printable ? TopInput{TopKey::kText, static_cast<char>(key)} : TopInput{};
}

}  // namespace gpupeak::tools
