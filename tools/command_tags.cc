#include "collector/views/tags.h"
#include "command_line.h"
#include "commands.h"
#include "several_logs.h"
#include "view.h"

namespace gpupeak::tools {
namespace {

struct TagsOptions : ViewOptions {
  size_t top = 20;
  bool csv = false;
};

int tags(const TagsOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
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

}  // namespace

void add_tags(CommandLine& line) {
  auto [verb, options] =
      line.add("tags", "What the peak's memory was for, by layer and by data structure", tags);
  add_view_options(verb, options);
  verb.add_flag("--csv", options.csv, "Lines tag,MiB, as MXNet's memory profiler has them")
      ->excludes("--json");
  add_top(verb, options.top, "Entries listed one by one");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
