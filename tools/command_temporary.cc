#include "collector/views/temporary.h"
#include "commands.h"
#include "view.h"

namespace gpupeak::tools {

int temporary(const ViewOptions& options) {
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_temporary(profile, options.scope, options.top, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_temporary_json(profile, options.scope, options.top, out);
      });
}

}  // namespace gpupeak::tools
