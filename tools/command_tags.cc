#include "collector/views/tags.h"
#include "commands.h"
#include "view.h"

namespace gpupeak::tools {

int tags(const ViewOptions& options) {
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        const collector::ScopeId scope = profile.scope(options.scope);
        if (options.csv) {
          collector::write_tags_csv(profile, scope, out);
        } else {
          collector::write_tags(profile, scope, options.top, out, style);
        }
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_tags_json(profile, profile.scope(options.scope), options.top, out);
      });
}

}  // namespace gpupeak::tools
