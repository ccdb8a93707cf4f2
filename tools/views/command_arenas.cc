#include "collector/views/arenas.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

struct ArenasOptions : ViewOptions {
  std::string at = "peak";
  size_t top = 20;
};

/// One log's arenas at the instant that is asked for.
struct ArenasOfLog {
  collector::ArenaMoments moments;
  collector::Profile profile;
  const collector::ArenaInstant instant;
  const std::vector<collector::ArenaState> states;

  ArenasOfLog(const std::string& log, const collector::Progress& progress,
              const ArenasOptions& options)
      : profile(log, progress, &moments, options.reading),
        instant(collector::arena_instant(profile, moments, options.at)),
        states(collector::arenas_at(profile, instant, progress)) {}
};

int arenas(const ArenasOptions& options) {
  return show_views(options, [&](const std::string& log, const collector::Progress& progress) {
    auto of_log = std::make_shared<ArenasOfLog>(log, progress, options);
    return LogView{std::shared_ptr<const collector::Profile>(of_log, &of_log->profile),
                   [of_log, &options](std::ostream& out, const collector::TextStyle& style) {
                     collector::write_arenas(of_log->profile, of_log->instant, of_log->states,
                                             options.top, out, style);
                   },
                   [of_log](std::ostream& out) {
                     collector::write_arenas_json(of_log->profile, of_log->moments, of_log->instant,
                                                  of_log->states, out);
                   }};
  });
}

}  // namespace

void add_arenas(CommandLine& line) {
  auto [verb, options] = line.add(
      "arenas", "What PyTorch's and other sub-allocators had in use and idle, by segment", arenas);
  verb.alias("pools");
  add_view_options(verb, options);
  verb.add_option("--at", options.at, "peak, end, +1.25s, a mark, a phase (the highest), PHASE.end")
      ->capture_default_str()
      ->type_name("MOMENT");
  add_top(verb, options.top, "Sites and segments of each pool");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
