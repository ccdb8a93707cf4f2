// The verbs by the question that they answer, as --help lists them. Questions that are asked most
// come first. Each function adds one verb to the command line.
#pragma once

// clang-format off
// top_verb: add_top() adds the option --top.
#define GPUPEAK_VERBS(QUESTION, X)                                                     \
  QUESTION("Record") X(run) X(mark) X(attach) X(detach)                                \
  QUESTION("Who held it, and when") X(report) X(tree) X(leaks) X(temporary) X(tags)    \
      X(phases) X(arenas) X(timeline) X(view)                                          \
  QUESTION("Has it grown, does it keep a limit") X(diff) X(check) X(watch) X(metrics)  \
  QUESTION("Would it fit") X(fit) X(sweep) X(whatif)                                   \
  QUESTION("Now, and many programs") X(merge) X(serve) X(top_verb) X(tables)           \
  QUESTION("For other programs, machines and readers") X(bundle) X(list_rules) X(export) X(mcp)
// clang-format on

namespace gpupeak::tools {

struct CommandLine;

#define GPUPEAK_QUESTION(text)
#define GPUPEAK_VERB(name) void add_##name(CommandLine& line);
GPUPEAK_VERBS(GPUPEAK_QUESTION, GPUPEAK_VERB)
#undef GPUPEAK_QUESTION
#undef GPUPEAK_VERB

}  // namespace gpupeak::tools
