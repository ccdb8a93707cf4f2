// The verbs, in the order of the command line. Each function adds one verb to the command line.
#pragma once

// top_verb: add_top() adds the option --top.
#define GPUPEAK_VERBS(X)                                                                           \
  X(run)                                                                                           \
  X(mark) X(report) X(diff) X(check) X(watch) X(metrics) X(merge) X(bundle) X(tree) X(leaks)       \
      X(temporary) X(tags) X(phases) X(arenas) X(list_rules) X(export) X(timeline) X(fit) X(sweep) \
          X(serve) X(top_verb) X(tables) X(whatif) X(mcp) X(view) X(attach) X(detach)

namespace gpupeak::tools {

struct CommandLine;

#define GPUPEAK_VERB(name) void add_##name(CommandLine& line);
GPUPEAK_VERBS(GPUPEAK_VERB)
#undef GPUPEAK_VERB

}  // namespace gpupeak::tools
