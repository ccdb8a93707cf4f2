#include <fmt/format.h>

#include <algorithm>

#include "collector/summary/what_if.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/views/heading.h"
#include "collector/views/views.h"
#include "collector/write/json_values.h"
#include "collector/write/write_html.h"

namespace gpupeak::collector {
namespace {

std::string device_name(const FitReport& report, const FitDevice& device) {
  const bool several_hosts = std::ranges::any_of(
      report.devices, [&](const FitDevice& other) { return other.host != device.host; });
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
    for (size_t i = 0; i < lines.size(); ++i)
      out << (i == 0 ? figures : std::string(indent, ' ')) << lines[i] << '\n';
  };
  const std::string driver =
      need.beyond_bytes ? " and " + size_text(*need.beyond_bytes, style) + " of the driver's own"
                        : "";
  row("at least", need.least_bytes, "in use of pools, all outside of them" + driver);
  if (need.refused_bytes && need.refused_bytes > need.least_bytes)
    row("at least", need.refused_bytes, "what was in use and asked for when memory ran out");
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
  if (answer.fit == Fit::kFits && answer.capacity < enough(answer.bounds))
    return fmt::format("the simulated run goes well with that, and with up to {} less", margin);
  if (answer.fit == Fit::kMayFit && !need.fails.empty()) {
    const bool fails = std::ranges::any_of(need.fails, [&](const FitRange& range) {
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
  const TopRows holders(left_out.holders, kRows, left_out.other_bytes);
  const auto row = [&](uint64_t bytes, const std::string& title) {
    write_row(fmt::format("    {}  ", right(size_text(bytes, style), columns)), title, "", out,
              style);
  };
  for (const LeftOut::Holder& holder : holders.shown) row(holder.bytes, holder.title);
  if (holders.other_bytes > 0)
    row(holders.other_bytes, left_out.holders.empty() ? "of whom is not known" : "more");
}

void write_texts(const DeviceNeed& need, std::ostream& out, const TextStyle& style) {
  for (const std::string& text : need.no_most)
    write_wrapped(alarm("  no upper bound: ", style) + text, out, style);
  for (const std::string& text : need.no_least)
    write_wrapped(alarm("  no lower bound: ", style) + text, out, style);
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
  const bool by_size =
      std::ranges::any_of(report.question.cards, [](const Card& card) { return card.by_size; });
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
  if (device.changes.size() > top)
    out << fmt::format("  … {} more; --top shows them\n", device.changes.size() - top);
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
  Json json = object("verdict, least_bytes, most_bytes, margin_bytes, left_bytes",
                     fit_name(answer.fit), answer.bounds.least, answer.bounds.most,
                     answer.bounds.margin, json_if(answer.fit == Fit::kFits, answer.left));
  const bool misses = answer.fit == Fit::kDoesNotFit ||
                      (answer.fit == Fit::kMayFit && answer.bounds.most.has_value());
  json["missing_bytes"] = json_if(misses, answer.missing);
  return json;
}

Json card_json(const Card& card) {
  return object("name, least_usable_bytes, most_usable_bytes, by_size, source", card.name,
                card.least_bytes, card.most_bytes, card.by_size, card.note);
}

Json device_json(const FitReport& report, const FitDevice& device) {
  const DeviceNeed& need = device.need;
  Json json = object(
      "host, ordinal, uuid, name, total_bytes, logs, in_use_bytes, held_bytes, padding_bytes, "
      "beyond_bytes, least_bytes, most_bytes, enough_bytes, fails",
      text_or_null(device.host), need.device, text_or_null(need.uuid), text_or_null(need.name),
      json_if(need.card_bytes > 0, need.card_bytes), device.logs, need.in_use_bytes,
      need.held_bytes, need.padding_bytes, need.beyond_bytes, need.least_bytes, need.most_bytes,
      need.fails.empty() ? Json(nullptr) : Json(need.fails.back().end),
      array_of(need.fails, [&](const FitRange& range) {
        return Json::array({range.begin, range.end});
      }));
  extend(json,
         "no_simulation, pool_requests, pool_repeated, refused_bytes, no_most, no_least, notes, "
         "left_out",
         text_or_null(need.no_simulation), need.arena_requests, need.arena_repeated,
         need.refused_bytes, need.no_most, need.no_least, need.notes,
         array_of(need.left_out, [](const LeftOut& left_out) {
           return object("kind, bytes, holders, other_bytes", left_out.kind, left_out.bytes,
                         array_of(left_out.holders, "site, bytes", &LeftOut::Holder::title,
                                  &LeftOut::Holder::bytes),
                         left_out.other_bytes);
         }));
  extend(json, "answer, cards", device.answer ? answer_json(*device.answer) : Json(nullptr),
         Json::array());
  for (size_t i = 0; i < device.cards.size(); ++i) {
    Json card = card_json(report.question.cards[i]);
    card["answer"] = answer_json(device.cards[i]);
    json["cards"].push_back(std::move(card));
  }
  json["changes"] = array_of(device.changes, [&](const FitChange& change) {
    return object("what, bytes, slack, advice", change.what, change.bytes, change.slack,
                  text_or_null(change.advice));
  });
  json["tags"] = array_of(device.tags, "name, bytes", &TagShare::name, &TagShare::bytes);
  return json;
}

Json fit_json(const FitReport& report) {
  Json json = object("schema, logs", "gpupeak.fit/1", report.logs);
  const FitQuestion& question = report.question;
  extend(json, "capacity_bytes, card, verdict, devices", question.capacity,
         question.card != nullptr ? card_json(*question.card) : Json(nullptr),
         report.fit ? Json(fit_name(*report.fit)) : Json(nullptr),
         array_of(report.devices,
                  [&](const FitDevice& device) { return device_json(report, device); }));
  return json;
}

}  // namespace

void write_fit(const FitReport& report, size_t top, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(fit_json(report), out);
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

namespace {

std::string where_text(const WhatIfSum& sum) {
  if (sum.device < 0) return "host memory";
  return sum.name.empty() ? fmt::format("GPU {}", sum.device)
                          : fmt::format("GPU {} ({})", sum.device, sum.name);
}

/// "of what the log has, " if the log does not have all; else empty.
std::string_view part_text(const WhatIfSum& sum) {
  return sum.is_whole ? "" : "of what the log has, ";
}

/// The peak that the library counted, if the log comes to another one.
void write_counted(const WhatIfSum& sum, std::ostream& out, const TextStyle& style) {
  if (!sum.counted_bytes) return;
  const std::string counted = size_text(*sum.counted_bytes, style);
  if (*sum.counted_bytes < sum.before_bytes) {
    write_wrapped(fmt::format("  the peak that was counted is {}: frees are missing from the log, "
                              "so that it has too much",
                              counted),
                  out, style);
    return;
  }
  write_wrapped(
      fmt::format("  the peak that was counted is {}, with what is not in the log: what that would "
                  "be with the change is not known",
                  counted),
      out, style);
}

}  // namespace

Json what_if_json(const WhatIf& what_if) {
  Json json = object("schema", "gpupeak.whatif/1");
  auto matched = what_if.matched.begin();
  json["changes"] = array_of(what_if.changes.scales, [&](const Changes::Scale& scale) {
    return object("pattern, factor, blocks", escape(scale.pattern), scale.factor, *matched++);
  });
  for (const PoolSetting setting : what_if.changes.settings())
    json["changes"].push_back(setting_name(setting));
  json["sums"] = Json::array();
  for (const WhatIfSum& sum : what_if.sums) {
    Json row = object(
        "scope, before, exact, peak_bytes, least_bytes, most_bytes, time_ns, used_before_bytes, "
        "used_bytes, holders",
        (sum.device < 0 ? ScopeKey::host() : ScopeKey::device(sum.device)).text(),
        object("peak_bytes, time_ns", sum.before_bytes, sum.before_time_ns), sum.is_exact(),
        json_if(sum.is_exact(), sum.least_bytes), sum.least_bytes, sum.most_bytes, sum.time_ns,
        sum.used_before_bytes, sum.used_bytes,
        array_of(sum.holders, "title, bytes, count", &WhatIfSum::Holder::title,
                 &WhatIfSum::Holder::bytes, &WhatIfSum::Holder::count));
    extend(row, "other_bytes, notes, whole, counted_peak_bytes", sum.other_bytes, sum.notes,
           sum.is_whole, sum.counted_bytes);
    json["sums"].push_back(std::move(row));
  }
  return json;
}

void write_what_if(const WhatIf& what_if, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(what_if_json(what_if), out);
  out << bold("WHAT IF", style) << "  " << changes_text(what_if.changes) << '\n';
  for (const WhatIfSum& sum : what_if.sums) {
    write_wrapped(fmt::format("{}: {}peak {} at {} in place of {} at {}, {}{}", where_text(sum),
                              part_text(sum), bounds_text(sum.least_bytes, sum.most_bytes, style),
                              instant(sum.time_ns), size_text(sum.before_bytes, style),
                              instant(sum.before_time_ns),
                              gain_text(sum.before_bytes, sum.least_bytes, sum.most_bytes),
                              sum.is_exact() ? ", exact" : ""),
                  out, style);
    if (sum.used_bytes)
      write_wrapped(
          fmt::format("  nvidia-smi would show {} in place of {}, the driver's own being "
                      "as it was",
                      size_text(*sum.used_bytes, style), size_text(*sum.used_before_bytes, style)),
          out, style);
    write_counted(sum, out, style);
    for (const std::string& note : sum.notes) write_wrapped("  " + note, out, style);
    const uint64_t whole = sum.most_bytes.value_or(sum.least_bytes);
    const auto row = [&](uint64_t bytes, const std::string& count, const std::string& title) {
      const std::string figures =
          fmt::format("{} {} {}  ", right(size_text(bytes, style), size_columns(style)),
                      right(percent(bytes, whole), 5), right(count, kRowCountColumns));
      const size_t width = static_cast<size_t>(std::max(style.width, 40));
      out << figures << cut(title, width - std::min(width, display_width(figures)), style) << '\n';
    };
    for (const WhatIfSum::Holder& holder : sum.holders)
      row(holder.bytes, grouped(holder.count), holder.title);
    if (sum.other_bytes > 0) row(sum.other_bytes, "", "more");
  }
}

void write_lowering(const std::vector<WhatIf>& all, size_t rows, std::ostream& out,
                    const ViewStyle& style) {
  if (style.is_json())
    return write_line(object("schema, changes", "gpupeak.lowering/1", array_of(all, what_if_json)),
                      out);
  if (all.empty()) return;
  const WhatIfSum& first = all.front().sums.front();
  out << heading_text("WHAT WOULD LOWER IT",
                      fmt::format("{}, {}{}: each alone, by replay", where_text(first),
                                  part_text(first), size_text(first.before_bytes, style)),
                      style);
  for (size_t i = 0; i < std::min(rows, all.size()); ++i) {
    const WhatIfSum& sum = all[i].sums.front();
    const std::string figures =
        fmt::format("  {}  {}  ", left(bounds_text(sum.least_bytes, sum.most_bytes, style), 22),
                    right(gain_text(sum.before_bytes, sum.least_bytes, sum.most_bytes), 8));
    const auto width = static_cast<size_t>(std::max(style.width, 40));
    out << figures
        << cut(changes_text(all[i].changes), width - std::min(width, display_width(figures)), style)
        << '\n';
  }
}

// What a change would have made of a run, as a page of its own. collector/page/what_if.js draws it.

namespace {

/// Each point as [ns since the point before, bytes as recorded, lower bound with the change, upper
/// bound with the change]. The upper bound is left out if it equals the lower one.
Json curve_json(const WhatIfSum& sum) {
  Json points = Json::array();
  int64_t last = 0;
  for (const WhatIfPoint& point : sum.curve) {
    Json one = {point.time - last, point.before, point.least};
    if (sum.most_bytes && point.most != point.least) one.push_back(point.most);
    points.push_back(std::move(one));
    last = point.time;
  }
  return points;
}

std::string answer_data(const WhatIf& what_if) {
  Json json = what_if_json(what_if);
  extend(json, "text, log, duration_ns", changes_text(what_if.changes), what_if.log,
         what_if.duration_ns);
  for (size_t i = 0; i < what_if.sums.size(); ++i) {
    json["sums"][i]["name"] = what_if.sums[i].name;
    json["sums"][i]["curve"] = curve_json(what_if.sums[i]);
  }
  return page_text(json);
}

}  // namespace

void write_what_if_page(const std::vector<WhatIf>& all, const std::string& tool_version,
                        std::ostream& out) {
  std::vector<std::string> answers;
  answers.reserve(all.size());
  for (const WhatIf& what_if : all) answers.push_back(answer_data(what_if));
  write_page("whatif", answers, tool_version, out);
}

}  // namespace gpupeak::collector
