#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

int flame(const TreeOptions& options) {
  const collector::TreeCut cut{options.min_percent, options.depth};
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_flame(profile, held_by(profile, options), cut, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_flame_json(profile, held_by(profile, options), cut, out);
      });
}

}  // namespace

void add_flame(CommandLine& line) {
  auto [verb, options] = line.add("flame", "The same as a flame graph", flame);
  add_tree_options(verb, options);
}

}  // namespace gpupeak::tools
