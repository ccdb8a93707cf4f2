#include <fmt/format.h>

#include <algorithm>

#include "collector/text/title_text.h"
#include "collector/views/heading.h"
#include "collector/views/views.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {
namespace {

std::string device_name(const FitReport& report, const FitDevice& device) {
  const bool several_hosts =
      std::any_of(report.devices.begin(), report.devices.end(),
                  [&](const FitDevice& other) { return other.host != device.host; });
  return fmt::format("{}GPU {}{}", several_hosts ? device.host + " " : "", device.need.device,
                     device.need.name.empty() ? "" : " (" + device.need.name + ")");
}

std::string answer_text(const FitAnswer& answer, const TextStyle& style) {
  switch (answer.fit) {
    case Fit::kFits:
      return fmt::format("fits, {} left", size_text(answer.left, style));
    case Fit::kDoesNotFit:
      return fmt::format("does not fit, {} missing", size_text(answer.missing, style));
    case Fit::kMayFit:
      if (!answer.bounds.most) return "may fit: no upper bound";
      if (!answer.bounds.least) return "may fit: no lower bound";
      return fmt::format("may fit, if {} less will do", size_text(answer.missing, style));
    case Fit::kUnknown:
      break;
  }
  return "not known";
}

std::string painted(const FitAnswer& answer, const std::string& text, const TextStyle& style) {
  return answer.fit == Fit::kFits ? bold(text, style) : alarm(text, style);
}

void write_bounds(const FitDevice& device, std::ostream& out, const TextStyle& style) {
  const DeviceNeed& need = device.need;
  const size_t columns = size_columns(style);
  const auto row = [&](const std::string& what, const std::optional<uint64_t>& bytes,
                       const std::string& why) {
    const std::string figures =
        fmt::format("  {} {}  ", left(what, 9), right(size_text(bytes, style), columns));
    const auto width = static_cast<size_t>(style.width);
    const size_t indent = display_width(figures);
    const std::vector<std::string> lines =
        wrapped(why, width > indent + 20 ? width - indent : width, 0, style);
    for (size_t i = 0; i < lines.size(); ++i) {
      out << (i == 0 ? figures : std::string(indent, ' ')) << lines[i] << '\n';
    }
  };
  const std::string driver =
      need.beyond_bytes ? " and " + size_text(*need.beyond_bytes, style) + " of the driver's own"
                        : "";
  row("at least", need.least_bytes, "in use of pools, all outside of them" + driver);
  if (need.refused_bytes && need.refused_bytes > need.least_bytes) {
    row("at least", need.refused_bytes, "what was in use and asked for when memory ran out");
  }
  if (!need.fails.empty()) {
    row("enough", need.fails.back().end,
        fmt::format("by a simulation of {}; it puts all {} blocks where they were", need.simulated,
                    grouped(need.arena_requests)));
  }
  row("at most", need.most_bytes, "as recorded: with what is idle in pools" + driver);
}

std::string_view upper_bound_name(const DeviceNeed& need) {
  return need.fails.empty() ? "at most" : "enough";
}

/// Which figure was compared with the capacity.
std::string compared_text(const DeviceNeed& need, const FitAnswer& answer, const TextStyle& style) {
  const std::string margin = size_text(answer.bounds.margin, style);
  if (answer.fit == Fit::kFits && answer.capacity < enough(answer.bounds)) {
    return fmt::format("the simulated run goes well with that, and with up to {} less", margin);
  }
  if (answer.fit == Fit::kMayFit && !need.fails.empty()) {
    const bool fails =
        std::any_of(need.fails.begin(), need.fails.end(), [&](const FitRange& range) {
          return range.begin <= answer.capacity && answer.capacity < range.end;
        });
    return fails ? "the simulated run fails with that"
                 : fmt::format(
                       "the simulated run goes well with that, and fails with less than "
                       "{} less",
                       margin);
  }
  return fmt::format("\"{}\" and a margin of {}", upper_bound_name(need), margin);
}

/// Memory that neither bound counts: how much, why, and who holds it.
void write_left_out(const LeftOut& left_out, std::ostream& out, const TextStyle& style) {
  constexpr size_t kRows = 3;
  write_wrapped(fmt::format("  {} of {} memory is left out: {}", size_text(left_out.bytes, style),
                            left_out.kind,
                            left_out.kind == "managed"
                                ? "it lies on the card or on the host, as there is room"
                                : "it is counted where it was exported"),
                out, style);
  const size_t columns = size_columns(style);
  uint64_t rest = left_out.other_bytes;
  const auto row = [&](uint64_t bytes, const std::string& title) {
    write_row(fmt::format("    {}  ", right(size_text(bytes, style), columns)), title, "", out,
              style);
  };
  for (size_t i = 0; i < left_out.holders.size(); ++i) {
    if (i < kRows)
      row(left_out.holders[i].bytes, left_out.holders[i].title);
    else
      rest += left_out.holders[i].bytes;
  }
  if (rest > 0) row(rest, left_out.holders.empty() ? "of whom is not known" : "more");
}

void write_texts(const DeviceNeed& need, std::ostream& out, const TextStyle& style) {
  for (const std::string& text : need.no_most) {
    write_wrapped(alarm("  no upper bound: ", style) + text, out, style);
  }
  for (const std::string& text : need.no_least) {
    write_wrapped(alarm("  no lower bound: ", style) + text, out, style);
  }
  if (!need.no_simulation.empty()) {
    write_wrapped(
        fmt::format("  what the pool would do with less memory is not known: {} ({} of {} "
                    "blocks where a simulation puts them)",
                    need.no_simulation, grouped(need.arena_repeated), grouped(need.arena_requests)),
        out, style);
  }
  for (const std::string& text : need.notes) write_wrapped("  " + text, out, style);
  for (const LeftOut& left_out : need.left_out) write_left_out(left_out, out, style);
}

void write_cards(const FitReport& report, const FitDevice& device, std::ostream& out,
                 const TextStyle& style) {
  size_t longest = 4;
  for (const Card& card : report.question.cards) longest = std::max(longest, card.name.size());
  const size_t columns = size_columns(style);
  out << fmt::format("\n  {}  {}\n", left("card", longest), right("usable", columns + 1));
  for (size_t i = 0; i < device.cards.size(); ++i) {
    const Card& card = report.question.cards[i];
    const FitAnswer& answer = device.cards[i];
    out << fmt::format("  {}  {}{}  {}\n", left(card.name, longest), card.by_size ? "~" : " ",
                       right(size_text(answer.capacity, style), columns),
                       painted(answer, answer_text(answer, style), style));
  }
  const bool by_size = std::any_of(report.question.cards.begin(), report.question.cards.end(),
                                   [](const Card& card) { return card.by_size; });
  write_wrapped(
      fmt::format("  \"{}\" and {} for another kind of card{}", upper_bound_name(device.need),
                  size_text(fit_bounds(device.need, false).margin, style),
                  by_size ? "; ~ by the size it is sold by, less a tenth" : ""),
      out, style);
}

void write_changes(const FitDevice& device, size_t top, std::ostream& out, const TextStyle& style) {
  if (device.changes.empty()) return;
  out << '\n' << bold("WHAT TO CHANGE", style) << ", largest first, at the peak\n";
  const size_t columns = size_columns(style);
  const auto width = static_cast<size_t>(style.width);
  for (size_t i = 0; i < std::min(top, device.changes.size()); ++i) {
    const FitChange& change = device.changes[i];
    const std::string mark = change.slack                   ? "  [slack]"
                             : change.advice == "temporary" ? "  [temporary]"
                                                            : "";
    write_row(fmt::format("  {}  ", right(size_text(change.bytes, style), columns)), change.what,
              mark, out, style);
    if (!change.advice.empty() && change.advice != "temporary") {
      out << std::string(columns + 4, ' ')
          << cut("→ " + change.advice, width > columns + 4 ? width - columns - 4 : 0, style)
          << '\n';
    }
  }
  if (device.changes.size() > top) {
    out << fmt::format("  … {} more; --top shows them\n", device.changes.size() - top);
  }
  if (device.tags.empty()) return;
  uint64_t whole = 0;
  for (const TagShare& tag : device.tags) whole += tag.bytes;
  std::string text = "  by tag:";
  for (const TagShare& tag : device.tags) {
    text += fmt::format("{} {} {} %", text.back() == ':' ? "" : ",", tag.name,
                        percent(tag.bytes, whole));
  }
  write_wrapped(text, out, style);
}

Json answer_json(const FitAnswer& answer) {
  Json json;
  json["verdict"] = fit_name(answer.fit);
  json["least_bytes"] = nullable(answer.bounds.least);
  json["most_bytes"] = nullable(answer.bounds.most);
  json["margin_bytes"] = answer.bounds.margin;
  json["left_bytes"] = answer.fit == Fit::kFits ? Json(answer.left) : Json(nullptr);
  const bool misses = answer.fit == Fit::kDoesNotFit ||
                      (answer.fit == Fit::kMayFit && answer.bounds.most.has_value());
  json["missing_bytes"] = misses ? Json(answer.missing) : Json(nullptr);
  return json;
}

Json card_json(const Card& card) {
  Json json;
  json["name"] = card.name;
  json["least_usable_bytes"] = card.least_bytes;
  json["most_usable_bytes"] = card.most_bytes;
  json["by_size"] = card.by_size;
  json["source"] = card.note;
  return json;
}

Json device_json(const FitReport& report, const FitDevice& device) {
  const DeviceNeed& need = device.need;
  Json json;
  json["host"] = text_or_null(device.host);
  json["ordinal"] = need.device;
  json["uuid"] = text_or_null(need.uuid);
  json["name"] = text_or_null(need.name);
  json["total_bytes"] = need.card_bytes > 0 ? Json(need.card_bytes) : Json(nullptr);
  json["logs"] = device.logs;
  json["in_use_bytes"] = nullable(need.in_use_bytes);
  json["held_bytes"] = need.held_bytes;
  json["padding_bytes"] = nullable(need.padding_bytes);
  json["beyond_bytes"] = nullable(need.beyond_bytes);
  json["least_bytes"] = nullable(need.least_bytes);
  json["most_bytes"] = nullable(need.most_bytes);
  json["enough_bytes"] = need.fails.empty() ? Json(nullptr) : Json(need.fails.back().end);
  json["fails"] = Json::array();
  for (const FitRange& range : need.fails) json["fails"].push_back({range.begin, range.end});
  json["no_simulation"] = text_or_null(need.no_simulation);
  json["pool_requests"] = need.arena_requests;
  json["pool_repeated"] = need.arena_repeated;
  json["refused_bytes"] = nullable(need.refused_bytes);
  json["no_most"] = need.no_most;
  json["no_least"] = need.no_least;
  json["notes"] = need.notes;
  json["left_out"] = Json::array();
  for (const LeftOut& left_out : need.left_out) {
    Json holders = Json::array();
    for (const LeftOut::Holder& holder : left_out.holders)
      holders.push_back({{"site", holder.title}, {"bytes", holder.bytes}});
    json["left_out"].push_back({{"kind", left_out.kind},
                                {"bytes", left_out.bytes},
                                {"holders", std::move(holders)},
                                {"other_bytes", left_out.other_bytes}});
  }
  json["answer"] = device.answer ? answer_json(*device.answer) : Json(nullptr);
  json["cards"] = Json::array();
  for (size_t i = 0; i < device.cards.size(); ++i) {
    Json card = card_json(report.question.cards[i]);
    card["answer"] = answer_json(device.cards[i]);
    json["cards"].push_back(std::move(card));
  }
  json["changes"] = Json::array();
  for (const FitChange& change : device.changes) {
    json["changes"].push_back({{"what", change.what},
                               {"bytes", change.bytes},
                               {"slack", change.slack},
                               {"advice", text_or_null(change.advice)}});
  }
  json["tags"] = Json::array();
  for (const TagShare& tag : device.tags) {
    json["tags"].push_back({{"name", tag.name}, {"bytes", tag.bytes}});
  }
  return json;
}

}  // namespace

void write_fit(const FitReport& report, size_t top, std::ostream& out, const TextStyle& style) {
  if (report.devices.empty()) {
    write_wrapped(
        "no GPU memory was seen: nothing is known of what would fit. Most often such a log is of "
        "another program than was meant (a wrapper)",
        out, style);
    return;
  }
  bool first = true;
  for (const FitDevice& device : report.devices) {
    if (!first) out << '\n';
    first = false;
    out << bold("FIT", style) << "  "
        << cut(device_name(report, device) +
                   (device.logs.size() > 1
                        ? fmt::format(", {} processes together", device.logs.size())
                        : ""),
               static_cast<size_t>(style.width) - 5, style)
        << '\n';
    write_bounds(device, out, style);
    write_texts(device.need, out, style);
    if (device.answer) {
      const std::string asked = report.question.card != nullptr
                                    ? fmt::format("{} ({})", report.question.card->name,
                                                  size_text(device.answer->capacity, style))
                                    : size_text(device.answer->capacity, style);
      out << '\n';
      write_wrapped(fmt::format("  {}: {}", asked,
                                painted(*device.answer, answer_text(*device.answer, style), style)),
                    out, style);
      write_wrapped("  (" + compared_text(device.need, *device.answer, style) + ")", out, style);
    }
    if (!device.cards.empty()) write_cards(report, device, out, style);
    write_changes(device, top, out, style);
  }
}

void write_fit_json(const FitReport& report, std::ostream& out) {
  Json json;
  json["schema"] = "gpupeak.fit/1";
  json["logs"] = report.logs;
  const FitQuestion& question = report.question;
  json["capacity_bytes"] = nullable(question.capacity);
  json["card"] = question.card != nullptr ? card_json(*question.card) : Json(nullptr);
  json["verdict"] = report.fit ? Json(fit_name(*report.fit)) : Json(nullptr);
  json["devices"] = Json::array();
  for (const FitDevice& device : report.devices) {
    json["devices"].push_back(device_json(report, device));
  }
  write_line(json, out);
}

}  // namespace gpupeak::collector
