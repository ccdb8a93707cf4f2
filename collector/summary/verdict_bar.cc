#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "collector/summary/judge.h"
#include "collector/summary/ledger_text.h"
#include "collector/summary/run_text.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {
namespace {

constexpr size_t kMaxParts = 3;
constexpr size_t kNameColumns = 28;

std::string first_frame(const std::string& title) {
  return title.substr(0, title.find(kArrow));
}

}  // namespace

void Judge::add_part(std::string name, int64_t bytes, uint64_t& left) {
  if (bytes <= 0) return;
  const uint64_t fits = std::min(static_cast<uint64_t>(bytes), left);
  left -= fits;
  if (fits > 0) verdict_.bar.push_back({cut(name, kNameColumns, style_), fits});
}

std::string Judge::telling_frame(size_t number) const {
  const std::vector<Holder>& holders = peak_->holders;
  const std::string& title = holders[number].title;
  const auto shown_end =
      holders.begin() + static_cast<ptrdiff_t>(std::min(kMaxParts, holders.size()));
  for (size_t begin = 0;;) {
    const size_t end = std::min(title.find(kArrow, begin), title.size());
    const bool is_shared = std::any_of(holders.begin(), shown_end, [&](const Holder& other) {
      return &other != &holders[number] && other.title.compare(0, end, title, 0, end) == 0 &&
             (other.title.size() == end || other.title.find(kArrow, end) == end);
    });
    if (!is_shared) return title.substr(begin, end - begin);
    if (end == title.size()) return first_frame(title);
    begin = end + kArrow.size();
  }
}

void Judge::bar() {
  if (verdict_.device == nullptr || peak_ == nullptr || verdict_.device->total_bytes == 0) return;
  uint64_t left = verdict_.device->total_bytes;
  uint64_t rest = peak_->bytes;
  size_t parts = 0;
  const auto part = [&](const std::string& name, uint64_t bytes) {
    if (parts == kMaxParts) return;
    ++parts;
    rest -= std::min(rest, bytes);
    add_part(name, static_cast<int64_t>(bytes), left);
  };
  for (const TagShare& tag : peak_->tags) {
    if (&tag != &peak_->tags.back()) part(tag.name, tag.bytes);
  }
  if (peak_->tags.empty()) {
    for (size_t i = 0; i < peak_->holders.size(); ++i)
      part(telling_frame(i), peak_->holders[i].bytes);
  }
  add_part(parts == 0 ? "handed out" : "others", static_cast<int64_t>(rest), left);
  std::string free = verdict_.device->is_integrated() ? "free, the host's or the driver's"
                                                      : "free or the driver's";
  if (verdict_.device->ledger && is_of_peak(verdict_.device->ledger->at_peak, peak_)) {
    ledger_parts(verdict_.device->ledger->at_peak, left);
    free = "free";
  }
  if (left > 0) verdict_.bar.push_back({free, left, true});
}

void Judge::ledger_parts(const LedgerView& view, uint64_t& left) {
  int64_t driver = 0, unused = 0, others = 0, host = 0, unknown = 0, unexplained = 0;
  for (const LedgerRow& row : view.rows) {
    if (row.cause == "start" || row.cause == "external")
      others += row.bytes;
    else if (row.cause == "others_and_context")
      unknown += row.bytes;
    else if (row.cause == "pool_slack" || row.cause == "rounding")
      unused += row.bytes;
    else if (row.cause == "host")
      host += row.bytes;
    else if (row.cause == "unexplained")
      unexplained += row.bytes;
    else
      driver += row.bytes;
  }
  add_part("context and code", driver, left);
  add_part("other processes and context", unknown, left);
  add_part("reserved, not in use", unused, left);
  if (view.of_process && view.card_used_bytes > view.used_bytes) {
    const uint64_t beside = view.card_used_bytes - view.used_bytes;
    const uint64_t theirs = std::min(beside, view.others_bytes.value_or(beside));
    add_part("other processes", static_cast<int64_t>(theirs), left);
    others = static_cast<int64_t>(beside - theirs);
  }
  add_part(view.of_process ? "the driver's" : "in use before", others, left);
  add_part("host memory", host, left);
  add_part("unexplained", unexplained, left);
}

std::string bar_text(const std::vector<Verdict::Part>& parts, size_t columns) {
  constexpr std::array<std::string_view, 4> kShades = {"█", "▓", "▒", "░"};
  constexpr std::string_view kFree = "·";
  const uint64_t whole =
      std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                      [](uint64_t sum, const Verdict::Part& part) { return sum + part.bytes; });
  std::string text;
  size_t used = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double share = static_cast<double>(parts[i].bytes) / static_cast<double>(whole);
    const size_t later = parts.size() - 1 - i;  // each of the later parts needs a place
    size_t cells =
        std::max<size_t>(1, static_cast<size_t>(share * static_cast<double>(columns) + 0.5));
    const size_t room = columns > used + later ? columns - used - later : 1;
    cells = later == 0 ? room : std::min(cells, room);
    used += cells;
    while (cells-- > 0) text += parts[i].free ? kFree : kShades[i % kShades.size()];
  }
  return text;
}

std::string bar_legend(const std::vector<Verdict::Part>& parts, const TextStyle& style) {
  std::string text;
  for (const Verdict::Part& part : parts)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : " · ", part.name, size_text(part.bytes, style));
  return text;
}

}  // namespace gpupeak::collector
