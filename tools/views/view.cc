#include "tools/views/view.h"

#include "collector/views/views.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {

void add_view_options(CLI::App& verb, ViewOptions& options) {
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  add_scope(verb, options.scope);
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
}

void add_moment(CLI::App& verb, std::string& at) {
  add_value(verb, "--at", at, "MOMENT",
            "Another moment: +1.25s, a mark, a phase (its highest), PHASE.end, end")
      ->capture_default_str();
}

collector::Held held_by(const collector::Profile& profile, const MomentOptions& options) {
  return collector::held_at(profile, profile.scope(options.scope), options.at);
}

std::vector<std::vector<collector::Held>> live_at(const collector::Profile& profile,
                                                  const std::vector<std::string>& moments) {
  const collector::ScopeId usual = profile.scope("");
  const std::vector<collector::ScopeId> sides = collector::sides(profile);
  std::vector<collector::NamedMoment> found;
  found.reserve(moments.size());
  for (const std::string& moment : moments) {
    found.push_back(moment == "peak" ? collector::peak_moment(profile, usual)
                                     : collector::find_moment(profile, usual, moment));
  }
  return collector::held_at(profile, sides, found);
}

void add_tree_options(CLI::App& verb, TreeOptions& options) {
  add_view_options(verb, options);
  add_moment(verb, options.at);
  add_number(verb, "--min-percent", options.min_percent, 0, 100,
             "Calls that hold less are one row");
  verb.add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
  add_reading(verb, options.reading);
}

collector::Reading reading_for(const ViewOptions& options) {
  collector::Reading reading = options.reading;
  if (options.scope.starts_with("device")) reading.heap = collector::HeapReading::kNone;
  return reading;
}

int show_views(
    const ViewOptions& options,
    const std::function<LogView(const std::string& log, const collector::Progress&)>& read) {
  require_output(options.out, options.logs);
  std::vector<LogView> views;
  {
    ProgressBar bar;
    for (const std::string& log : process_logs(options.logs, options.process))
      views.push_back(read(log, bar.callback()));
  }
  write_in_turn(
      options, views.size(), [&](auto& out, size_t i) { views[i].json(out); },
      [&](auto& out, auto& style, size_t i) {
        const collector::Profile& profile = *views[i].profile;
        if (views.size() > 1)
          out << bold(profile.definitions().shown(profile.path()), style) << '\n';
        views[i].text(out, style);
      });
  return strict_code(options.strict,
                     are_whole(views, [](const LogView& view) { return view.profile->quality(); }));
}

int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json) {
  return show_views(options, [&](const std::string& log, const collector::Progress& progress) {
    auto profile =
        std::make_shared<collector::Profile>(log, progress, nullptr, reading_for(options));
    return LogView{profile,
                   [profile, &text](std::ostream& out, const collector::TextStyle& style) {
                     text(*profile, out, style);
                   },
                   [profile, &json](std::ostream& out) { json(*profile, out); }};
  });
}

}  // namespace gpupeak::tools
