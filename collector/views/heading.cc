#include "collector/views/heading.h"

#include <fmt/format.h>

#include "collector/summary/run_text.h"
#include "collector/summary/site_title.h"
#include "collector/text/title_text.h"

namespace gpupeak::collector {

void write_wrapped(const std::string& text, std::ostream& out, const TextStyle& style) {
  for (const std::string& line : wrapped(text, static_cast<size_t>(style.width), 4, style))
    out << line << '\n';
}

void write_losses(const Quality& quality, std::ostream& out, const TextStyle& style) {
  const bool fine = quality.exact && quality.log_complete;
  if (!fine) out << alarm(losses_text(quality), style) << '\n';
  for (const Warning& warning : quality.warnings)
    write_wrapped(fmt::format("  {}  {}", code_text(warning.code), warning.message), out, style);
  if (!fine || !quality.warnings.empty()) out << '\n';
}

void write_heading(const Profile& profile, const Held& held, std::ostream& out,
                   const TextStyle& style) {
  const std::string more =
      held.is_peak() ? (held.phase ? ", phase " + *held.phase : "") : ", " + held.moment;
  const std::string text = fmt::format("{}: {} at {}{}", profile.scope_text(held.scope),
                                       size_text(held.bytes, style), instant(held.time_ns), more);
  out << bold(held.is_peak() ? "PEAK" : "LIVE", style) << "  "
      << cut(text, static_cast<size_t>(style.width) - 6, style) << '\n';
}

void write_row(const std::string& figures, const std::string& title, const std::string& mark,
               std::ostream& out, const TextStyle& style, size_t telling) {
  out << title_row(figures, title, mark, static_cast<size_t>(style.width), style, telling) << '\n';
}

void write_sites(const HolderTable& table, uint64_t whole, std::ostream& out,
                 const TextStyle& style) {
  const auto row = [&](uint64_t bytes, const std::string& count, const std::string& title,
                       const std::string& mark, size_t telling) {
    const std::string figures =
        fmt::format("{} {} {}  ", right(size_text(bytes, style), size_columns(style)),
                    right(percent(bytes, whole), 5), right(count, kRowCountColumns));
    write_row(figures, title, mark, out, style, telling);
  };
  out << fmt::format("{} {} {}  site\n", right("size", size_columns(style)), right("%", 5),
                     right("n", kRowCountColumns));
  for (const Holder& holder : table.rows) {
    row(holder.bytes, count_text(holder), holder.title,
        fmt::format("  [{}]", holder.kind.substr(holder.kind.find('.') + 1)), holder.telling_part);
  }
  if (table.other_rows > 0)
    row(table.other_bytes, "", fmt::format("{} more", grouped(table.other_rows)), "", 0);
}

Json view_json(const Profile& profile, std::string_view schema) {
  return object("schema, log, quality", schema, profile.definitions().shown(profile.path()),
                quality_json(profile.quality()));
}

Json held_view_json(const Profile& profile, const Held& held, std::string_view schema) {
  Json json = view_json(profile, schema);
  json["scope"] = profile.scope_info(held.scope).name;
  if (!held.is_peak()) json["moment"] = held.moment;
  extend(json, "bytes, time_ns, phase", held.bytes, held.time_ns, held.phase);
  return json;
}

}  // namespace gpupeak::collector
