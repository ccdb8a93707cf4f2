#include "view.h"

#include <unistd.h>

#include <optional>

#include "exit_codes.h"
#include "output.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {

int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json) {
  std::optional<collector::Profile> profile;
  {
    ProgressBar bar;
    profile.emplace(options.log, bar.callback(), nullptr, rule_choice(options.rules));
  }
  write_output("", [&](std::ostream& out) {
    if (options.json) {
      json(*profile, out);
    } else {
      text(*profile, out, style_for(STDOUT_FILENO, options.color));
    }
  });
  return options.strict && !profile->quality().exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
