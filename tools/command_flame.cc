#include "collector/views/flame.h"
#include "commands.h"
#include "view.h"

namespace gpupeak::tools {

int flame(const ViewOptions& options) {
  const collector::TreeCut cut{options.min_percent, options.depth};
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_flame(profile, profile.scope(options.scope), cut, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_flame_json(profile, profile.scope(options.scope), cut, out);
      });
}

}  // namespace gpupeak::tools
