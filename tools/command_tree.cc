#include "collector/views/tree.h"
#include "commands.h"
#include "view.h"

namespace gpupeak::tools {

int tree(const ViewOptions& options) {
  const collector::TreeCut cut{options.min_percent, options.depth};
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_tree(profile, profile.scope(options.scope), cut, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_tree_json(profile, profile.scope(options.scope), cut, out);
      });
}

}  // namespace gpupeak::tools
