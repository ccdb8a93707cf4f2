#include "view.h"

#include <unistd.h>

#include <optional>

#include "exit_codes.h"
#include "output.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {

void add_view_options(CLI::App& verb, ViewOptions& options) {
  add_log(verb, options.log);
  add_scope(verb, options.scope);
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_color(verb, options.color);
  add_rules(verb, options.reading.rules);
}

void add_tree_options(CLI::App& verb, TreeOptions& options) {
  add_view_options(verb, options);
  verb.add_option("--min-percent", options.min_percent, "Calls that hold less are one row")
      ->check(between(0, 100))
      ->capture_default_str();
  verb.add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
  add_reading(verb, options.reading);
}

int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json) {
  require_output(options.out, {options.log});
  std::optional<collector::Profile> profile;
  {
    ProgressBar bar;
    profile.emplace(options.log, bar.callback(), nullptr, options.reading);
  }
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      json(*profile, out);
    } else {
      text(*profile, out, style_for(output_descriptor(options.out), options.color));
    }
  });
  return strict_code(options.strict, is_whole(profile->quality()));
}

}  // namespace gpupeak::tools
