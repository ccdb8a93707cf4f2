// The verbs, in the order of the command line. Each function adds one verb, or
// several similar ones, to the command line, and is defined in the command_x.cc of its verb; start
// and stop are in command_window.cc.
#pragma once

// top_verb: add_top() adds the option --top; symbolize also adds bundle and compress.
#define GPUPEAK_VERBS(X)                                                                      \
  X(run) X(mark) X(report) X(diff) X(check) X(watch) X(metrics) X(merge) X(symbolize) X(tree) \
  X(flame) X(leaks) X(temporary) X(tags) X(phases) X(arenas) X(list_rules) X(export)          \
  X(timeline) X(compare) X(fit) X(sweep) X(serve) X(top_verb) X(tables) X(dump) X(held)       \
  X(whatif) X(mcp) X(view) X(start) X(stop) X(attach) X(detach)

namespace gpupeak::tools {

struct CommandLine;

#define GPUPEAK_VERB(name) void add_##name(CommandLine& line);
GPUPEAK_VERBS(GPUPEAK_VERB)
#undef GPUPEAK_VERB

}  // namespace gpupeak::tools
