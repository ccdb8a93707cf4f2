#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/several_logs.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

struct TagsOptions : MomentOptions {
  size_t top = 20;
  bool csv = false;
};

int tags(const TagsOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
  return show_view(
      options,
      [&](collector::Profile& profile, std::ostream& out, const collector::TextStyle& style) {
        const collector::Held held = held_by(profile, options);
        if (options.csv) {
          collector::write_tags_csv(profile, held, out);
        } else {
          collector::write_tags(profile, held, options.top, out, style);
        }
      },
      [&](collector::Profile& profile, std::ostream& out) {
        collector::write_tags_json(profile, held_by(profile, options), options.top, out);
      });
}

}  // namespace

void add_tags(CommandLine& line) {
  auto [verb, options] =
      line.add("tags", "What the peak's memory was for, by layer and by data structure", tags);
  add_view_options(verb, options);
  add_moment(verb, options.at);
  verb.add_flag("--csv", options.csv, "Lines tag,MiB, as MXNet's memory profiler has them")
      ->excludes("--json");
  add_top(verb, options.top, "Entries listed one by one");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
