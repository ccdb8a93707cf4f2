#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

int temporary(const SitesOptions& options) {
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_temporary(profile, options.scope, options.top, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_temporary_json(profile, options.scope, options.top, out);
      });
}

}  // namespace

void add_temporary(CommandLine& line) {
  auto [verb, options] =
      line.add("temporary", "Blocks that were freed at once, by site", temporary);
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
