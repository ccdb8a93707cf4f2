#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"

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

std::string painted_answer(const FitAnswer& answer, const TextStyle& style) {
  const std::string text = answer_text(answer, style);
  return answer.fit == Fit::kFits ? bold(text, style) : alarm(text, style);
}

void add_bounds(const FitDevice& device, TextLines& text) {
  const DeviceNeed& need = device.need;
  const auto row = [&](const std::string& what, const std::optional<uint64_t>& bytes,
                       const std::string& why) {
    std::string figures = fmt::format("  {} {}  ", left(what, 9), text.cell(bytes));
    const size_t indent = display_width(figures), width = text.width();
    for (const std::string& line :
         wrapped(why, width > indent + 20 ? width - indent : width, 0, text.style())) {
      text.add(figures + line);
      figures.assign(indent, ' ');
    }
  };
  const std::string driver =
      need.beyond_bytes ? " and " + text.size(need.beyond_bytes) + " of the driver's own" : "";
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
                       "the simulated run goes well with that, and fails with less than {} less",
                       margin);
  }
  return fmt::format("\"{}\" and a margin of {}", upper_bound_name(need), margin);
}

/// Memory that neither bound counts: how much, why, and who holds it.
void add_left_out(const LeftOut& left_out, TextLines& text) {
  constexpr size_t kRows = 3;
  text.wrap("  {} of {} memory is left out: {}", text.size(left_out.bytes), left_out.kind,
            left_out.kind == "managed" ? "it lies on the card or on the host, as there is room"
                                       : "it is counted where it was exported");
  const TopRows holders(left_out.holders, kRows, left_out.other_bytes);
  const TextTable table(text, {{"size"}}, "    ");
  for (const LeftOut::Holder& holder : holders.shown)
    table.row({text.size(holder.bytes)}, holder.title);
  if (holders.other_bytes > 0)
    table.row({text.size(holders.other_bytes)},
              left_out.holders.empty() ? "of whom is not known" : "more");
}

void add_texts(const DeviceNeed& need, TextLines& text) {
  for (const std::string& why : need.no_most)
    text.wrap("{}{}", alarm("  no upper bound: ", text.style()), why);
  for (const std::string& why : need.no_least)
    text.wrap("{}{}", alarm("  no lower bound: ", text.style()), why);
  if (!need.no_simulation.empty()) {
    text.wrap(
        "  what the pool would do with less memory is not known: {} ({} of {} blocks where a "
        "simulation puts them)",
        need.no_simulation, grouped(need.arena_repeated), grouped(need.arena_requests));
  }
  for (const std::string& note : need.notes) text.wrap("  " + note);
  for (const LeftOut& left_out : need.left_out) add_left_out(left_out, text);
}

void add_cards(const FitReport& report, const FitDevice& device, TextLines& text) {
  const size_t longest = std::max<size_t>(
      4, most_of(report.question.cards, [](const Card& card) { return card.name.size(); }));
  text.add("\n  {}   {}", left("card", longest), text.cell("usable"));
  for (size_t i = 0; i < device.cards.size(); ++i) {
    const Card& card = report.question.cards[i];
    text.add("  {}  {}{}  {}", left(card.name, longest), card.by_size ? "~" : " ",
             text.cell(device.cards[i].capacity), painted_answer(device.cards[i], text.style()));
  }
  const bool by_size =
      std::ranges::any_of(report.question.cards, [](const Card& card) { return card.by_size; });
  text.wrap("  \"{}\" and {} for another kind of card{}", upper_bound_name(device.need),
            text.size(fit_bounds(device.need, false).margin),
            by_size ? "; ~ by the size it is sold by, less a tenth" : "");
}

void add_changes(const FitDevice& device, size_t top, TextLines& text) {
  if (device.changes.empty()) return;
  text.add("\n{}, largest first, at the peak", bold("WHAT TO CHANGE", text.style()));
  const TextTable table(text, {{"size"}}, "  ");
  const auto add = [&](const FitChange& change) {
    const std::string mark = change.slack                   ? "  [slack]"
                             : change.advice == "temporary" ? "  [temporary]"
                                                            : "";
    table.row({text.size(change.bytes)}, change.what, mark);
    if (!change.advice.empty() && change.advice != "temporary")
      table.line({""}, "→ " + change.advice);
  };
  text.first(device.changes, top, add, "; --top shows them");
  if (device.tags.empty()) return;
  const uint64_t whole = sum_of(device.tags, &TagShare::bytes);
  std::vector<std::string> tags;
  for (const TagShare& tag : device.tags)
    tags.push_back(fmt::format("{} {} %", tag.name, percent(tag.bytes, whole)));
  text.wrap("  by tag: {}", fmt::join(tags, ", "));
}

Json answer_json(const FitAnswer& answer) {
  const bool misses = answer.fit == Fit::kDoesNotFit ||
                      (answer.fit == Fit::kMayFit && answer.bounds.most.has_value());
  return object("verdict, least_bytes, most_bytes, margin_bytes, left_bytes, missing_bytes",
                fit_name(answer.fit), answer.bounds.least, answer.bounds.most, answer.bounds.margin,
                json_if(answer.fit == Fit::kFits, answer.left), json_if(misses, answer.missing));
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
  const FitQuestion& question = report.question;
  return object("schema, logs, capacity_bytes, card, verdict, devices", "gpupeak.fit/1",
                report.logs, question.capacity,
                question.card != nullptr ? card_json(*question.card) : Json(nullptr),
                report.fit ? Json(fit_name(*report.fit)) : Json(nullptr),
                array_of(report.devices,
                         [&](const FitDevice& device) { return device_json(report, device); }));
}

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
void add_counted(const WhatIfSum& sum, TextLines& text) {
  if (!sum.counted_bytes) return;
  text.wrap("  the peak that was counted is {}{}", text.size(sum.counted_bytes),
            *sum.counted_bytes < sum.before_bytes
                ? ": frees are missing from the log, so that it has too much"
                : ", with what is not in the log: what that would be with the change is not known");
}

/// gpupeak.whatif/1; docs/json.md.
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
        sum.used_before_bytes, sum.used_bytes, sum.holders);
    extend(row, "other_bytes, notes, whole, counted_peak_bytes", sum.other_bytes, sum.notes,
           sum.is_whole, sum.counted_bytes);
    json["sums"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

void write_fit(const FitReport& report, size_t top, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(fit_json(report), out);
  TextLines text(style);
  if (report.devices.empty())
    text.wrap(
        "no GPU memory was seen: nothing is known of what would fit. Most often such a log is of "
        "another program than was meant (a wrapper)");
  for (const FitDevice& device : report.devices) {
    if (!text.empty()) text.add("");
    text.heading(
        "FIT", "{}{}", device_name(report, device),
        device.logs.size() > 1 ? fmt::format(", {} processes together", device.logs.size()) : "");
    add_bounds(device, text);
    add_texts(device.need, text);
    if (device.answer) {
      const std::string capacity = text.size(device.answer->capacity);
      const Card* const card = report.question.card;
      text.add("");
      text.wrap("  {}: {}",
                card != nullptr ? fmt::format("{} ({})", card->name, capacity) : capacity,
                painted_answer(*device.answer, style));
      text.wrap("  ({})", compared_text(device.need, *device.answer, style));
    }
    if (!device.cards.empty()) add_cards(report, device, text);
    add_changes(device, top, text);
  }
  text.write(out);
}

void write_what_if(const WhatIf& what_if, std::ostream& out, const ViewStyle& style) {
  if (style.is_json()) return write_line(what_if_json(what_if), out);
  TextLines text(style, 4, kRowCountColumns, 40);
  text.add("{}  {}", bold("WHAT IF", style), changes_text(what_if.changes));
  for (const WhatIfSum& sum : what_if.sums) {
    text.wrap("{}: {}peak {} at {} in place of {} at {}, {}{}", where_text(sum), part_text(sum),
              bounds_text(sum.least_bytes, sum.most_bytes, style), instant(sum.time_ns),
              text.size(sum.before_bytes), instant(sum.before_time_ns),
              gain_text(sum.before_bytes, sum.least_bytes, sum.most_bytes),
              sum.is_exact() ? ", exact" : "");
    if (sum.used_bytes)
      text.wrap("  nvidia-smi would show {} in place of {}, the driver's own being as it was",
                text.size(sum.used_bytes), text.size(sum.used_before_bytes));
    add_counted(sum, text);
    for (const std::string& note : sum.notes) text.wrap("  " + note);
    const uint64_t whole = sum.most_bytes.value_or(sum.least_bytes);
    for (const WhatIfSum::Holder& holder : sum.holders)
      text.parts().line(text.of_whole(holder.bytes, whole, grouped(holder.count)), holder.title);
    if (sum.other_bytes > 0) text.part(sum.other_bytes, whole, "", "more");
  }
  text.write(out);
}

void write_lowering(const std::vector<WhatIf>& all, size_t rows, std::ostream& out,
                    const ViewStyle& style) {
  if (style.is_json())
    return write_line(object("schema, changes", "gpupeak.lowering/1", array_of(all, what_if_json)),
                      out);
  if (all.empty()) return;
  TextLines text(style);
  const WhatIfSum& first = all.front().sums.front();
  text.whole_heading("WHAT WOULD LOWER IT",
                     fmt::format("{}, {}{}: each alone, by replay", where_text(first),
                                 part_text(first), text.size(first.before_bytes)));
  for (size_t i = 0; i < std::min(rows, all.size()); ++i) {
    const WhatIfSum& sum = all[i].sums.front();
    text.line(lowering_row(sum.before_bytes, sum.least_bytes, sum.most_bytes,
                           changes_text(all[i].changes), style));
  }
  text.write(out);
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
  write_page("whatif", list_of(all, answer_data), tool_version, out);
}

}  // namespace gpupeak::collector
