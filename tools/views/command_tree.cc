#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

int tree(const TreeOptions& options) {
  const collector::TreeCut cut{options.min_percent, options.depth};
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_tree(profile, held_by(profile, options), cut, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_tree_json(profile, held_by(profile, options), cut, out);
      });
}

}  // namespace

void add_tree(CommandLine& line) {
  auto [verb, options] = line.add("tree", "Who held the memory at the peak, as a call tree", tree);
  add_tree_options(verb, options);
}

}  // namespace gpupeak::tools
