#include "tools/help_text.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace gpupeak::tools {
namespace {

constexpr size_t kColumn = 30;  // where descriptions begin

std::string row(const std::string& left, const std::string& description) {
  std::string text = "  " + left;
  text.resize(std::max(text.size(), kColumn), ' ');
  if (description.empty()) return text + "\n";
  const std::string indent(kColumn, ' ');
  if (left.size() + 2 >= kColumn) text += "\n" + indent;
  for (const char c : description) {
    text += c;
    if (c == '\n') text += indent;
  }
  return text + "\n";
}

/// The verbs by the question that they answer. Questions that are asked most come first.
struct Question {
  const char* text;
  std::vector<std::string_view> verbs;
};
const std::vector<Question>& questions() {
  static const std::vector<Question> list{
      {"Record", {"run", "attach", "detach", "mark"}},
      {"Who held it, and when",
       {"report", "view", "tree", "flame", "held", "tags", "phases", "arenas", "timeline", "leaks",
        "temporary"}},
      {"Has it grown, does it keep a limit", {"diff", "compare", "check", "watch", "metrics"}},
      {"Would it fit", {"fit", "sweep", "whatif"}},
      {"Now, and many programs", {"top", "serve", "merge", "tables"}},
      {"For other programs, machines and readers",
       {"export", "mcp", "symbolize", "bundle", "compress", "dump", "rules"}}};
  return list;
}

bool is_named(const CLI::App* verb) {
  return !verb->get_name().empty();
}

}  // namespace

std::string HelpText::usage(const CLI::App& app, const std::string& name) const {
  std::string text = "Usage: " + name;
  if (!app.get_options([](const CLI::Option* option) { return option->nonpositional(); }).empty())
    text += " [OPTIONS]";
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    text += " " + make_option_usage(option);
  }
  if (!app.get_subcommands(is_named).empty()) text += " SUBCOMMAND";
  return text + "\n";
}

std::string HelpText::rows(const std::string& heading,
                           const std::vector<const CLI::Option*>& options) const {
  if (options.empty()) return "";
  std::string text = "\n" + heading + ":\n";
  for (const CLI::Option* option : options) {
    const bool positional = option->get_positional();
    text += row(make_option_name(option, positional) + make_option_opts(option),
                make_option_desc(option));
  }
  return text;
}

std::string HelpText::make_help(const CLI::App* app, std::string name,
                                CLI::AppFormatMode /*mode*/) const {
  std::string text = app->get_description() + "\n" + usage(*app, name);
  text += rows("Positionals", app->get_options([](const CLI::Option* option) {
    return option->get_positional() && !option->get_group().empty();
  }));
  const std::vector<std::string> groups = app->get_groups();
  for (const std::string& group : groups) {
    const std::string found = rows(
        group == "OPTIONS" ? "Options" : group, app->get_options([&](const CLI::Option* option) {
          return option->nonpositional() && option->get_group() == group && !group.empty();
        }));
    text += found;
    if (!found.empty() && group != groups.back()) text += "\n";
  }
  // Groups without a name, of which at most one option may be given.
  for (const CLI::App* group : app->get_subcommands({})) {
    if (is_named(group)) continue;
    text += rows("At most one of", group->get_options([&](const CLI::Option* option) {
      return option != group->get_help_ptr();
    }));
  }
  const std::vector<const CLI::App*> verbs = app->get_subcommands(
      [](const CLI::App* verb) { return is_named(verb) && !verb->get_group().empty(); });
  if (!verbs.empty()) text += "\nSubcommands:\n";
  std::set<std::string_view> told;
  const auto tell = [&](const std::string& question, const auto& belongs) {
    std::string rows;
    for (const CLI::App* verb : verbs) {
      if (told.contains(verb->get_name()) || !belongs(verb->get_name())) continue;
      told.insert(verb->get_name());
      rows += row(verb->get_name(), verb->get_description());
    }
    if (!rows.empty()) text += question + ":\n" + rows;
  };
  for (const Question& question : questions()) {
    tell(question.text, [&](const std::string& verb) {
      return std::find(question.verbs.begin(), question.verbs.end(), verb) != question.verbs.end();
    });
  }
  tell("Other", [](const std::string&) { return true; });
  const std::string footer = app->get_footer();
  return text + "\n" + (footer.empty() ? "" : footer + "\n");
}

}  // namespace gpupeak::tools
