#include "collector/views/leaks.h"
#include "commands.h"
#include "view.h"

namespace gpupeak::tools {

int leaks(const ViewOptions& options) {
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        collector::write_leaks(profile, options.scope, options.top, out, style);
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_leaks_json(profile, options.scope, options.top, out);
      });
}

}  // namespace gpupeak::tools
