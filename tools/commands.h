// The verbs. Each function adds one verb, or several similar ones, to the command line, and is
// defined in the command_x.cc of its verb; add_start() and add_stop() are in command_window.cc.
#pragma once

namespace gpupeak::tools {

struct CommandLine;

void add_run(CommandLine& line);
void add_mark(CommandLine& line);
void add_attach(CommandLine& line);
void add_detach(CommandLine& line);
void add_start(CommandLine& line);
void add_stop(CommandLine& line);
void add_report(CommandLine& line);
void add_diff(CommandLine& line);
void add_check(CommandLine& line);
void add_watch(CommandLine& line);
void add_metrics(CommandLine& line);
void add_merge(CommandLine& line);
void add_top_verb(CommandLine& line);  ///< add_top() adds the option --top
void add_tables(CommandLine& line);
void add_sweep(CommandLine& line);
void add_serve(CommandLine& line);
void add_symbolize(CommandLine& line);  ///< also adds bundle and compress
void add_tree(CommandLine& line);
void add_held(CommandLine& line);
void add_whatif(CommandLine& line);
void add_mcp(CommandLine& line);
void add_view(CommandLine& line);
void add_flame(CommandLine& line);
void add_leaks(CommandLine& line);
void add_temporary(CommandLine& line);
void add_tags(CommandLine& line);
void add_phases(CommandLine& line);
void add_arenas(CommandLine& line);
void add_list_rules(CommandLine& line);
void add_export(CommandLine& line);
void add_timeline(CommandLine& line);
void add_compare(CommandLine& line);
void add_fit(CommandLine& line);
void add_dump(CommandLine& line);

}  // namespace gpupeak::tools
