// The command `gpupeak`: parses, calls a verb, turns what is thrown into exit codes.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "collector/export/export.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "commands.h"
#include "exit_codes.h"

namespace {

using namespace gpupeak;

constexpr const char* kExamples = R"(
Examples:
  gpupeak run -- onnxruntime_perf_test -e cuda -I -r 100 model.onnx
  gpupeak run -o bert.gplog -- python3 train.py
  gpupeak report bert.gplog                    who held the memory at the peak
  gpupeak report --by module --top 20 bert.gplog
  gpupeak report --json bert.gplog | jq '.metrics["device.peak_bytes"]'
  gpupeak phases --rules onnxruntime bert.gplog
  gpupeak tags --tag 'weights=*SaveInitializedTensors' bert.gplog
  gpupeak tree --scope device:0 bert.gplog     from main down to the allocations
  gpupeak export chrome bert.gplog -o bert.json
  gpupeak diff before.gplog after.gplog        what grew
  gpupeak check --max device.peak_bytes=8GiB bert.gplog
  gpupeak report --html bert.html bert.gplog   a page to look around in
  gpupeak compare --html abc.html a.gplog b.gplog c.gplog
  gpupeak timeline bert.gplog                  memory over time; --svg FILE draws it
  gpupeak dump bert.gplog | grep device_alloc

Without this command: LD_PRELOAD=/path/to/libgpupeak.so program arguments...
)";

void add_run(CLI::App& app, tools::RunOptions& options) {
  CLI::App* verb = app.add_subcommand("run", "Run a program and report the peak memory of its run");
  verb->add_option("-o,--out", options.out, "Log file; %n program, %p process id, %r rank, %h host")
      ->type_name("FILE");
  verb->add_flag("-q,--quiet", options.quiet, "Say nothing; the log is written all the same");
  verb->add_option("--host", options.host, "What to record of host memory")
      ->check(CLI::IsMember({"full", "sampled", "counters", "off"}));
  verb->add_option("--log-max", options.log_max,
                   "Size from which on the heap is sampled, so that the log stays small")
      ->type_name("SIZE");
  verb->add_option("--children", options.children, "Which child processes record too")
      ->check(CLI::IsMember({"cuda", "all", "none"}));
  verb->add_flag(
      "--audit", options.audit,
      "Reach libraries opened with RTLD_DEEPBIND or dlmopen too, through the loader's auditing");
  verb->add_option("--python", options.python, "Python frames in the call sites of device memory")
      ->check(CLI::IsMember({"auto", "off"}));
  verb->add_option("--phase-on-output", options.phases_on_output,
                   "A line of the program's output with this text begins a phase (may be repeated)")
      ->type_name("[NAME=]TEXT")
      ->allow_extra_args(false);
  verb->add_option("command", options.command, "The program and its arguments")
      ->required()
      ->type_name("-- PROGRAM ...");
  verb->positionals_at_end();
}

void add_mark(CLI::App& app, tools::MarkOptions& options) {
  CLI::App* verb = app.add_subcommand("mark", "Mark this instant in the log of a running process");
  verb->add_option("process", options.target, "Its process id, or the log that it writes")
      ->required()
      ->type_name("PID|LOG");
  verb->add_option("name", options.name, "What to call the mark")->required()->type_name("NAME");
}

void add_log(CLI::App& verb, std::string& log) {
  verb.add_option("log", log, "A log that `run` or the preloaded library wrote")
      ->required()
      ->type_name("FILE");
}

void add_scope(CLI::App& verb, std::string& scope) {
  verb.add_option("--scope", scope,
                  "Which memory: device, device:0, host, host/heap, device:0/pool, total ...");
}

void add_top(CLI::App& verb, size_t& top, const char* rows) {
  verb.add_option("--top", top, rows)->check(CLI::Range(1, 1'000'000))->capture_default_str();
}

void add_strict(CLI::App& verb, bool& strict) {
  verb.add_flag("--strict", strict, "Exit with 4 if anything was lost");
}

void add_out(CLI::App& verb, std::string& out) {
  verb.add_option("-o,--out", out, "Write to a file instead of standard output")->type_name("FILE");
}

void add_color(CLI::App& verb, std::string& color) {
  verb.add_option("--color", color, "Colours in text")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

void add_rules(CLI::App& verb, tools::RuleOptions& options) {
  verb.add_option("--rules", options.sets,
                  "Rules that name phases and tags: a built-in set, a file, none; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME|FILE");
  verb.add_option("--phase", options.phases,
                  "A phase by a frame on the stack, such as 'load=llama_model_load*'")
      ->allow_extra_args(false)
      ->type_name("NAME=[MODULE!]FUNCTION");
  verb.add_option("--tag", options.tags,
                  "A tag by a frame on the stack, such as 'weights=*SaveInitializedTensors'")
      ->allow_extra_args(false)
      ->type_name("NAME=[MODULE!]FUNCTION");
}

void add_report(CLI::App& app, tools::ReportOptions& options) {
  CLI::App* verb = app.add_subcommand("report", "Who held the memory at the peak, in which phase");
  verb->add_option("log", options.logs, "Logs that `run` or the preloaded library wrote")
      ->required()
      ->type_name("FILE ...");
  auto* format = verb->add_option_group("format");
  format->add_flag_callback(
      "--json", [&] { options.format = "json"; }, "The summary as JSON (docs/summary.schema.json)");
  format->add_flag_callback(
      "--csv", [&] { options.format = "csv"; }, "The holders at each peak as CSV");
  format->add_flag_callback(
      "--short", [&] { options.format = "short"; }, "The lines that a run ends with");
  format->add_option("--html", options.html, "A page of one log or several, into this file")
      ->type_name("FILE");
  format->require_option(0, 1);
  verb->add_option("--by", options.by, "What the rows are")
      ->check(CLI::IsMember({"site", "function", "module", "phase", "tag", "kind", "thread", "ip"}))
      ->capture_default_str();
  add_top(*verb, options.top, "Rows a table");
  add_strict(*verb, options.strict);
  add_out(*verb, options.out);
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
}

void add_phases(CLI::App& app, tools::ReportOptions& options) {
  CLI::App* verb =
      app.add_subcommand("phases", "The phases and their repetitions, host beside device");
  verb->add_option("log", options.logs, "A log that `run` or the preloaded library wrote")
      ->required()
      ->expected(1)
      ->type_name("FILE");
  verb->add_flag_callback(
      "--csv", [&] { options.format = "csv"; }, "As CSV, in bytes");
  add_strict(*verb, options.strict);
  add_out(*verb, options.out);
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
}

void add_diff(CLI::App& app, tools::DiffOptions& options) {
  CLI::App* verb = app.add_subcommand("diff", "What grew from one run to another, by site");
  verb->add_option("A", options.a, "A log, or JSON that `report --json` wrote")
      ->required()
      ->type_name("FILE");
  verb->add_option("B", options.b, "The later run")->required()->type_name("FILE");
  verb->add_option("--by", options.by, "What the rows are")
      ->check(CLI::IsMember({"site", "function", "module", "phase", "tag", "kind", "thread"}))
      ->capture_default_str();
  add_top(*verb, options.top, "Rows a table");
  verb->add_flag("--json", options.json, "As JSON, with all rows");
  verb->add_flag("--strict", options.strict, "Exit with 4 if anything was lost in either run");
  add_out(*verb, options.out);
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
}

void add_check(CLI::App& app, tools::CheckOptions& options) {
  CLI::App* verb =
      app.add_subcommand("check", "Exit with 1 if a run does not keep its memory limits");
  verb->add_option("log", options.log, "A log, or JSON that `report --json` wrote")
      ->required()
      ->type_name("FILE");
  verb->add_option("--max", options.max,
                   "A limit, such as device.peak_bytes=8GiB or "
                   "device.peak_bytes@phase:load=2GiB (docs/check.md)")
      ->allow_extra_args(false)
      ->type_name("METRIC=SIZE");
  verb->add_option("--baseline", options.baseline, "An earlier run: a log or JSON")
      ->type_name("FILE");
  verb->add_option("--max-increase", options.max_increase,
                   "A limit over the baseline, such as device.peak_bytes=2% or =64MiB")
      ->allow_extra_args(false)
      ->type_name("METRIC=PERCENT|SIZE");
  verb->add_option("--junit", options.junit, "Write the results as JUnit XML")->type_name("FILE");
  verb->add_option("--markdown", options.markdown,
                   "Append the results as Markdown, for instance to $GITHUB_STEP_SUMMARY")
      ->type_name("FILE");
  verb->add_flag("--strict", options.strict, "Exit with 4 if all passed, but anything was lost");
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
}

void add_metrics(CLI::App& app, tools::MetricsOptions& options) {
  CLI::App* verb =
      app.add_subcommand("metrics", "The figures alone, for scripts, CI services and dashboards");
  verb->add_option("log", options.logs, "Logs, or JSON that `report --json` wrote")
      ->required()
      ->type_name("FILE ...");
  verb->add_option("--format", options.format, "What reads it (docs/ci.md)")
      ->check(CLI::IsMember({"text", "jsonl", "bencher", "github-benchmark", "google-benchmark"}))
      ->capture_default_str();
  verb->add_option("--metric", options.names, "Only this one; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb->add_option("--label", options.labels, "Goes along with the figures; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  verb->add_option("--benchmark", options.benchmark, "A name instead of the program's")
      ->type_name("NAME");
  add_strict(*verb, options.strict);
  add_out(*verb, options.out);
}

void add_merge(CLI::App& app, tools::MergeOptions& options) {
  CLI::App* verb = app.add_subcommand(
      "merge", "What several processes of one run, children or ranks, held at once");
  verb->add_option("log", options.logs, "Their logs")->required()->type_name("FILE ...");
  verb->add_flag("--json", options.json, "As JSON");
  add_strict(*verb, options.strict);
  add_out(*verb, options.out);
  add_color(*verb, options.color);
}

void add_pack(CLI::App& app, tools::PackOptions& options, const char* name, const char* description,
              const char* out) {
  CLI::App* verb = app.add_subcommand(name, description);
  add_log(*verb, options.log);
  verb->add_option("-o,--out", options.out, std::string("Where to; else ") + out)
      ->type_name("FILE");
  verb->add_flag("-q,--quiet", options.quiet, "Do not say what came of it");
}

/// With GPUPEAK_CONFIDENTIAL_KEY hashes cannot be confirmed by guessing.
void confidential() {
  const char* key = getenv("GPUPEAK_CONFIDENTIAL_KEY");
  collector::make_confidential(key != nullptr ? key : "");
}

/// Of all verbs that read logs; those that write logs write them as they are.
void add_common_options(CLI::App& app) {
  collector::SymbolSearch& search = collector::symbol_search();
  for (CLI::App* verb : app.get_subcommands({})) {
    const std::string& name = verb->get_name();
    if (name == "run" || name == "mark" || name == "rules") continue;
    if (name != "symbolize" && name != "bundle" && name != "compress") {
      verb->add_flag_callback("--confidential", confidential,
                              "Hashes for paths, functions, arguments, hosts, labels and phases "
                              "(docs/confidential.md)");
    }
    verb->add_option("--sysroot", search.sysroot, "Folder below which the log's paths lie")
        ->type_name("DIR")
        ->group("Symbols");
    verb->add_option("--debug-dir", search.debug_dirs,
                     "Folder of debug files or binaries; may be repeated")
        ->allow_extra_args(false)
        ->type_name("DIR")
        ->group("Symbols");
  }
}

CLI::App* add_view(CLI::App& app, tools::ViewOptions& options, const char* name,
                   const char* description) {
  CLI::App* verb = app.add_subcommand(name, description);
  add_log(*verb, options.log);
  add_scope(*verb, options.scope);
  verb->add_flag("--json", options.json, "As JSON");
  add_strict(*verb, options.strict);
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
  return verb;
}

void add_call_view(CLI::App& app, tools::ViewOptions& options, const char* name,
                   const char* description) {
  CLI::App* verb = add_view(app, options, name, description);
  verb->add_option("--min-percent", options.min_percent, "Calls that hold less are one row")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  verb->add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
}

void add_export(CLI::App& app, tools::ExportOptions& options) {
  CLI::App* verb = app.add_subcommand("export", "Write a log in a format of other tools");
  std::vector<std::string> names;
  std::string formats = "Formats:";
  for (const collector::ExportFormat& format : collector::export_formats()) {
    names.emplace_back(format.name);
    formats += fmt::format("\n  {:<15} {}", format.name, format.description);
  }
  verb->add_option("format", options.format, "One of those below")
      ->required()
      ->check(CLI::IsMember(names))
      ->type_name("FORMAT");
  verb->add_option("log", options.log, "A log that `run` or the preloaded library wrote")
      ->required()
      ->type_name("LOG");
  add_out(*verb, options.out);
  add_scope(*verb, options.scope);
  add_strict(*verb, options.strict);
  add_rules(*verb, options.rules);
  verb->footer(formats);
}

void add_tags(CLI::App& app, tools::ViewOptions& options) {
  CLI::App* verb = add_view(app, options, "tags",
                            "What the peak's memory was for, by layer and by data structure");
  verb->add_flag("--csv", options.csv, "tag,MiB: a line a tag, as MXNet's memory profiler had it")
      ->excludes("--json");
  add_top(*verb, options.top, "Entries listed one by one");
}

void add_list_rules(CLI::App& app, std::string& name) {
  app.add_subcommand("rules", "List the built-in rule sets, or print one to start from")
      ->add_option("name", name, "A built-in set")
      ->type_name("NAME");
}

void add_site_view(CLI::App& app, tools::ViewOptions& options, const char* name,
                   const char* description) {
  add_top(*add_view(app, options, name, description), options.top, "Rows a table");
}

void add_timeline(CLI::App& app, tools::TimelineOptions& options) {
  CLI::App* verb = add_view(app, options.view, "timeline", "Memory over time, as a chart");
  verb->add_option("--height", options.height, "Rows of a chart")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  verb->add_option("--svg", options.svg, "Draw it into this file instead")->type_name("FILE");
  verb->add_option("--png", options.png, "The same as PNG; needs rsvg-convert")->type_name("FILE");
}

void add_compare(CLI::App& app, tools::CompareOptions& options) {
  CLI::App* verb = app.add_subcommand("compare", "Peaks, phases and sites of several runs");
  verb->add_option("logs", options.logs, "Two logs or more")
      ->required()
      ->expected(2, 1000)
      ->type_name("LOG ...");
  verb->add_option("--scope", options.scope, "Which memory phases and sites are of");
  verb->add_option("--html", options.html, "Curves over each other and tables, as a page")
      ->type_name("FILE");
  add_top(*verb, options.top, "Sites");
  verb->add_flag("--json", options.json, "As JSON");
  add_strict(*verb, options.strict);
  add_color(*verb, options.color);
  add_rules(*verb, options.rules);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("gpupeak"));
  spdlog::set_pattern("gpupeak: %^%v%$");
  signal(SIGPIPE, SIG_DFL);  // `gpupeak dump … | head` ends quietly

  CLI::App app{"gpupeak: the exact peak memory of GPU programs, and who held it"};
  app.set_version_flag("--version", std::string("gpupeak ") + GPUPEAK_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);
  tools::RunOptions run_options;
  tools::ReportOptions report_options;
  tools::ViewOptions view_options;
  tools::ExportOptions export_options;
  tools::DiffOptions diff_options;
  tools::CheckOptions check_options;
  tools::TimelineOptions timeline_options;
  tools::CompareOptions compare_options;
  tools::MarkOptions mark_options;
  tools::MetricsOptions metrics_options;
  tools::MergeOptions merge_options;
  tools::PackOptions pack_options;
  std::string dump_log;
  add_run(app, run_options);
  add_mark(app, mark_options);
  add_report(app, report_options);
  add_diff(app, diff_options);
  add_check(app, check_options);
  add_metrics(app, metrics_options);
  add_merge(app, merge_options);
  add_pack(app, pack_options, "symbolize", "Write a log's functions and lines beside it",
           "LOG.symbols, which reports find");
  add_pack(app, pack_options, "bundle",
           "One compressed file with log and symbols, readable anywhere",
           "the log's name with .gpbundle");
  add_pack(app, pack_options, "compress", "Compress a log; every verb reads it", "LOG.zst");
  add_call_view(app, view_options, "tree", "Who held the memory at the peak, as a call tree");
  add_call_view(app, view_options, "flame", "The same as a flame graph");
  add_site_view(app, view_options, "leaks", "What was live at exit, by site");
  add_site_view(app, view_options, "temporary", "Blocks that were freed at once, by site");
  add_tags(app, view_options);
  add_phases(app, report_options);
  std::string rules_name;
  add_list_rules(app, rules_name);
  add_export(app, export_options);
  add_timeline(app, timeline_options);
  add_compare(app, compare_options);
  app.add_subcommand("dump", "Print a log, one event a line")
      ->add_option("log", dump_log, "The log")
      ->required()
      ->type_name("FILE");
  add_common_options(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tools::kOk : tools::kUsage;
  }
  try {
    if (app.got_subcommand("run")) return tools::run(run_options);
    if (app.got_subcommand("mark")) return tools::mark(mark_options);
    if (app.got_subcommand("report")) return tools::report(report_options);
    if (app.got_subcommand("diff")) return tools::diff(diff_options);
    if (app.got_subcommand("check")) return tools::check(check_options);
    if (app.got_subcommand("metrics")) return tools::metrics(metrics_options);
    if (app.got_subcommand("merge")) return tools::merge(merge_options);
    if (app.got_subcommand("symbolize")) return tools::symbolize(pack_options);
    if (app.got_subcommand("bundle")) return tools::bundle(pack_options);
    if (app.got_subcommand("compress")) return tools::compress(pack_options);
    if (app.got_subcommand("tree")) return tools::tree(view_options);
    if (app.got_subcommand("flame")) return tools::flame(view_options);
    if (app.got_subcommand("leaks")) return tools::leaks(view_options);
    if (app.got_subcommand("temporary")) return tools::temporary(view_options);
    if (app.got_subcommand("tags")) return tools::tags(view_options);
    if (app.got_subcommand("phases")) return tools::phases(report_options);
    if (app.got_subcommand("rules")) return tools::list_rules(rules_name);
    if (app.got_subcommand("export")) return tools::export_log(export_options);
    if (app.got_subcommand("timeline")) return tools::timeline(timeline_options);
    if (app.got_subcommand("compare")) return tools::compare(compare_options);
    return tools::dump(dump_log);
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
