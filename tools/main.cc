// The command `gpupeak`: parses, calls a verb, and turns exceptions into exit codes.
#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cstdlib>
#include <system_error>
#include <thread>

#include "collector/text/error.h"
#include "tools/commands.h"
#include "tools/examples.h"
#include "tools/help_text.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/exit_codes.h"
#include "tools/shared/parse.h"
#include "tools/shared/say.h"
#include "tools/shared/self.h"

namespace {

using namespace gpupeak;

int command(int argc, char** argv) {
  tools::occupy_standard_descriptors();
  tools::keep_child_ends();
  spdlog::set_default_logger(spdlog::stderr_color_mt("gpupeak"));
  spdlog::set_pattern("gpupeak: %^%v%$");

  tools::CommandLine line{
      CLI::App{"gpupeak: the exact peak memory of GPU programs, and who held it"}, {}};
  line.app.set_version_flag("-V,--version", std::string("gpupeak ") + GPUPEAK_VERSION);
  line.app.name("gpupeak");
  line.app.require_subcommand(1);
  const std::string library = tools::preload_library().string();
  line.app.footer(fmt::format("{}\nWithout this command: LD_PRELOAD={} program arguments...\n",
                              tools::examples_of(""), library));
  line.app.formatter(std::make_shared<tools::HelpText>());
  for (const auto add :
       {tools::add_run,        tools::add_mark,   tools::add_report,   tools::add_diff,
        tools::add_check,      tools::add_watch,  tools::add_metrics,  tools::add_merge,
        tools::add_symbolize,  tools::add_tree,   tools::add_flame,    tools::add_leaks,
        tools::add_temporary,  tools::add_tags,   tools::add_phases,   tools::add_arenas,
        tools::add_list_rules, tools::add_export, tools::add_timeline, tools::add_compare,
        tools::add_fit,        tools::add_sweep,  tools::add_serve,    tools::add_top_verb,
        tools::add_tables,     tools::add_dump,   tools::add_held,     tools::add_whatif,
        tools::add_mcp,        tools::add_view,   tools::add_start,    tools::add_stop,
        tools::add_attach,     tools::add_detach}) {
    add(line);
  }
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
    spdlog::error("{}", error.what());
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
