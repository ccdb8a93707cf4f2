// The command `gpupeak`: parses, calls a verb, and turns exceptions into exit codes.

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <thread>

#include "collector/text/error.h"
#include "tools/commands.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"

using namespace gpupeak;

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

constexpr const char* kExamples = R"(
Examples:
  gpupeak run -- onnxruntime_perf_test -e cuda -I -r 100 model.onnx
  gpupeak run -o bert.gplog -- python3 train.py
  gpupeak report bert.gplog                    who held the memory at the peak
  gpupeak report --by module --top 20 bert.gplog
  gpupeak report --at 'warm-up done' bert.gplog  a mark; +1.25s, PHASE.end, end
  gpupeak report --json bert.gplog | jq '.metrics["device.peak_bytes"]'
  gpupeak phases --rules onnxruntime bert.gplog
  gpupeak tags --tag 'weights=*SaveInitializedTensors' bert.gplog
  gpupeak tree --scope device:0 bert.gplog     from main down to the allocations
  gpupeak export chrome bert.gplog -o bert.json
  gpupeak diff before.gplog after.gplog        what grew
  gpupeak check --max device.peak_bytes=8GiB bert.gplog
  gpupeak report --html bert.html bert.gplog   a page to look around in
  gpupeak diff --html abc.html a.gplog b.gplog c.gplog
  gpupeak fit --gpu T4 bert.gplog              would it fit a smaller card
  gpupeak timeline bert.gplog                  memory over time; --svg FILE draws it
  gpupeak export events bert.gplog | grep device_alloc
)";

bool is_named(const CLI::App* verb) {
  return !verb->get_name().empty();
}

// What --help prints. The form is the same with every release of CLI11: CLI11's own form has other
// line breaks and headings since 2.5. Examples, completions and the manual rely on our form.
class HelpText : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode /*mode*/) const override {
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
    std::string question;
    for (const CLI::App* verb : verbs) {
      if (verb->get_group() != question) text += (question = verb->get_group()) + ":\n";
      text += row(verb->get_name(), verb->get_description());
    }
    const std::string footer = app->get_footer();
    return text + "\n" + (footer.empty() ? "" : footer + "\n");
  }

 private:
  std::string usage(const CLI::App& app, const std::string& name) const {
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
  std::string rows(const std::string& heading,
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
};

int command(int argc, char** argv) {
  tools::occupy_standard_descriptors();
  tools::keep_child_ends();
  spdlog::set_default_logger(spdlog::stderr_color_mt("gpupeak"));
  spdlog::set_pattern("gpupeak: %^%v%$");

  tools::CommandLine line{
      CLI::App{"gpupeak: the exact peak memory of GPU programs, and who held it"}, {}, {}};
  line.app.set_version_flag("-V,--version", std::string("gpupeak ") + GPUPEAK_VERSION);
  line.app.name("gpupeak");
  line.app.require_subcommand(1);
  const std::string library = tools::preload_library().string();
  line.app.footer(fmt::format("{}\nWithout this command: LD_PRELOAD={} program arguments...\n",
                              tools::possible(kExamples), library));
  line.app.formatter(std::make_shared<HelpText>());
  // A program waits for `run`: the options of the other verbs take as long as all else before it.
  const bool is_run = argc > 2 && argv[1] == std::string_view("run");
#define GPUPEAK_QUESTION(text) line.question = text;
#define GPUPEAK_VERB(name) \
  if (!is_run || #name == std::string_view("run")) tools::add_##name(line);
  GPUPEAK_VERBS(GPUPEAK_QUESTION, GPUPEAK_VERB)
#undef GPUPEAK_QUESTION
#undef GPUPEAK_VERB
  if (const std::optional<int> code = tools::parse(line, argc, argv)) return *code;
  try {
    return line.action();
  } catch (const collector::UsageError& error) {
    spdlog::error("{}", error.what());
    return tools::kUsage;
  } catch (const collector::LogError& error) {
    spdlog::error("{}", error.what());
    return tools::kUnreadableLog;
  } catch (const std::exception& error) {
    spdlog::error("{}", collector::said_by(error));
    return tools::kOwnFailure;
  }
}

/// Whether stacks are smaller than we need, as under `ulimit -s 64`. Then threads get more: their
/// stacks have the size of the limit otherwise. The limit itself is the program's, and stays.
bool needs_larger_stacks() {
  constexpr size_t kStackBytes = 8 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytes) return false;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return false;
  const bool is_set = pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                      pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  return is_set;
}

}  // namespace

int main(int argc, char** argv) {
  if (!needs_larger_stacks()) return command(argc, argv);
  // The command ends the process itself: where it goes on in a child (leave_orphans_to_parent()),
  // its thread is the only one there.
  std::thread([&] { std::exit(command(argc, argv)); }).join();
  return tools::kOwnFailure;  // not reached
}
