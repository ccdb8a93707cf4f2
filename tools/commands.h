// One function a verb: options in, exit code out. main.cc parses the options and calls them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupeak::tools {

struct RunOptions {
  std::vector<std::string> command;
  std::string out;       ///< name or pattern of the log; empty: GPUPEAK_OUT, else the default
  std::string log_max;   ///< as GPUPEAK_LOG_MAX; empty: as the environment has it
  std::string host;      ///< as GPUPEAK_HOST; empty: as the environment has it
  std::string children;  ///< as GPUPEAK_CHILDREN
  std::string python;    ///< as GPUPEAK_PYTHON
  std::vector<std::string> phases_on_output;  ///< as output_phases.h; empty: output is left alone
  bool audit = false;                         ///< reach clients that bypass a preloaded library
  bool quiet = false;
};
/// Runs a program under the preload. Returns its exit code.
int run(const RunOptions& options);

struct MarkOptions {
  std::string target;  ///< a process id or a log
  std::string name;
};
/// Marks this instant in the log of a running process.
int mark(const MarkOptions& options);

/// Which rules name phases and tags; docs/rules.md.
struct RuleOptions {
  std::vector<std::string> sets;    ///< names, files, `none`, `auto`
  std::vector<std::string> phases;  ///< NAME=[MODULE!]FUNCTION
  std::vector<std::string> tags;    ///< the same
};

struct ReportOptions {
  std::vector<std::string> logs;
  std::string format = "text";  ///< text, short, json, csv
  std::string html;             ///< file of a page, instead of the format
  std::string out;              ///< file; empty: standard output
  std::string by = "site";
  std::string color = "auto";
  size_t top = 10;
  bool strict = false;
  RuleOptions rules;
};
int report(const ReportOptions& options);

/// What `tree`, `flame`, `leaks` and `temporary` have in common.
struct ViewOptions {
  std::string log;
  std::string scope;  ///< "device:0", "host/heap" …; empty: the verb's own choice
  std::string color = "auto";
  double min_percent = 1;  ///< tree, flame
  uint32_t depth = 0;      ///< tree, flame; 0: all
  size_t top = 20;         ///< leaks, temporary
  bool json = false;
  bool csv = false;  ///< tags
  bool strict = false;
  RuleOptions rules;
};
/// The call tree of the peak's holders.
int tree(const ViewOptions& options);
/// The same as a flame graph.
int flame(const ViewOptions& options);
/// What was live at exit, by site.
int leaks(const ViewOptions& options);
/// Blocks freed at once, by site.
int temporary(const ViewOptions& options);
/// What the peak's memory was for, by layer and by data structure.
int tags(const ViewOptions& options);

/// The phases with their instances, host and device side by side. `format`: text or csv.
int phases(const ReportOptions& options);
/// The built-in rule sets, or the text of one.
int list_rules(const std::string& name);

struct ExportOptions {
  std::string format;  ///< as collector::export_formats() names it
  std::string log;
  std::string out;    ///< file; empty: standard output
  std::string scope;  ///< as ViewOptions::scope
  bool strict = false;
  RuleOptions rules;
};
/// Writes a log in another tool's format.
int export_log(const ExportOptions& options);

struct DiffOptions {
  std::string a, b;  ///< logs, or JSON that `report --json` wrote
  std::string out;   ///< file; empty: standard output
  std::string by = "site";
  std::string color = "auto";
  size_t top = 10;
  bool json = false;
  bool strict = false;
  RuleOptions rules;
};
/// What changed from one run to another.
int diff(const DiffOptions& options);

struct CheckOptions {
  std::string log;       ///< or JSON that `report --json` wrote
  std::string baseline;  ///< likewise; empty: none
  std::vector<std::string> max, max_increase;
  std::string junit, markdown;  ///< files; empty: none
  std::string color = "auto";
  bool strict = false;
  RuleOptions rules;
};
/// Whether a run keeps its limits.
int check(const CheckOptions& options);

struct TimelineOptions {
  ViewOptions view;
  std::string svg, png;  ///< files; with one of them, no text
  size_t height = 8;     ///< rows of a chart
};
/// Memory over time as a chart.
int timeline(const TimelineOptions& options);

struct CompareOptions {
  std::vector<std::string> logs;
  std::string scope;  ///< as ViewOptions::scope
  std::string html;   ///< file of a page; empty: text
  std::string color = "auto";
  size_t top = 20;
  bool json = false;
  bool strict = false;
  RuleOptions rules;
};
/// Several runs side by side.
int compare(const CompareOptions& options);

struct MetricsOptions {
  std::vector<std::string> logs;  ///< or JSON that `report --json` wrote
  std::string format = "text";    ///< text, jsonl, bencher, github-benchmark, google-benchmark
  std::vector<std::string> names, labels;
  std::string benchmark;  ///< empty: the program's name
  std::string out;        ///< file; empty: standard output
  bool strict = false;
};
/// The figures alone, for scripts and dashboards.
int metrics(const MetricsOptions& options);

struct MergeOptions {
  std::vector<std::string> logs;
  std::string out;  ///< file; empty: standard output
  std::string color = "auto";
  bool json = false;
  bool strict = false;
};
/// What several processes held at once.
int merge(const MergeOptions& options);

/// What `symbolize`, `bundle` and `compress` have in common.
struct PackOptions {
  std::string log;
  std::string out;  ///< file; empty: beside the log
  bool quiet = false;
};
/// Writes the symbols of a log beside it.
int symbolize(const PackOptions& options);
/// Writes log and symbols into one compressed file.
int bundle(const PackOptions& options);
/// Writes the log compressed.
int compress(const PackOptions& options);

/// One event a line on standard output.
int dump(const std::string& log);

}  // namespace gpupeak::tools
