#include "collector/timeline/moment.h"
#include "collector/views/held.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

struct HeldOptions : SitesOptions {
  std::vector<std::string> within, at;
};

/// Seconds may stand alone: "17.9" is "+17.9s".
std::string moment_name(const std::string& text) {
  const bool is_time = text.find_first_not_of("+0123456789.") == std::string::npos;
  const bool begins_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  return (begins_with_digit ? "+" : "") + text + (is_time && !text.empty() ? "s" : "");
}

int held(const HeldOptions& options) {
  const auto moments_in = [&](const collector::Profile& profile) {
    std::vector<collector::Moment> moments;
    for (const std::string& name : options.within) moments.push_back({name, {}});
    for (const std::string& at : options.at) {
      const collector::ScopeId scope = profile.scope(options.scope);
      moments.push_back({"", collector::find_moment(profile, scope, moment_name(at)).time_ns});
    }
    if (moments.empty()) moments.emplace_back();
    return moments;
  };
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_held(profile, profile.scope(options.scope), moments_in(profile),
                              options.top, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_held_json(profile, profile.scope(options.scope), moments_in(profile),
                                   options.top, out);
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
  verb.add_option("--at", options.at,
                  "A moment: +1.25s, a mark, a phase, PHASE.end, end; may be repeated")
      ->allow_extra_args(false)
      ->type_name("MOMENT");
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
