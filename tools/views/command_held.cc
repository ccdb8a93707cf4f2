#include <charconv>
#include <cmath>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

struct HeldOptions : SitesOptions {
  std::vector<std::string> within, at;
};

/// "17.9", "+17.9" or "17.9s": seconds since the log's start.
int64_t nanoseconds_of(const std::string& text) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size() - (text.ends_with('s') ? 1 : 0);
  double seconds = -1;
  const auto [stop, error] = std::from_chars(begin, end, seconds);
  if (error != std::errc() || stop != end || !(seconds >= 0 && seconds < 1e9)) {
    throw collector::UsageError("--at " + collector::escape(text) +
                                ": give seconds since the log's start, as 17.9");
  }
  return static_cast<int64_t>(std::llround(seconds * 1e9));
}

int held(const HeldOptions& options) {
  std::vector<collector::Moment> moments;
  for (const std::string& name : options.within) moments.push_back({name, {}});
  for (const std::string& time : options.at) moments.push_back({"", nanoseconds_of(time)});
  if (moments.empty()) moments.emplace_back();
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_held(profile, profile.scope(options.scope), moments, options.top, out,
                              style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_held_json(profile, profile.scope(options.scope), moments, options.top,
                                   out);
      });
}

}  // namespace

void add_held(CommandLine& line) {
  auto [verb, options] =
      line.add("held", "Who held the memory at a moment, or within a phase", held);
  verb.add_option("--within", options.within,
                  "The highest while a phase of this name was open; may be repeated")
      ->allow_extra_args(false)
      ->type_name("PHASE");
  verb.add_option("--at", options.at, "Seconds since the log's start; may be repeated")
      ->allow_extra_args(false)
      ->type_name("SECONDS");
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
