#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

int leaks(const SitesOptions& options) {
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_leaks(profile, options.scope, options.top, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_leaks_json(profile, options.scope, options.top, out);
      });
}

}  // namespace

void add_leaks(CommandLine& line) {
  auto [verb, options] = line.add("leaks", "What was live at exit, by site", leaks);
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
