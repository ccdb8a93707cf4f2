// The examples with which --help ends, of the command and of each verb.
#include <sstream>
#include <string>
#include <string_view>

#include "collector/write/writers.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

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

struct VerbExamples {
  std::string_view verb;
  std::string_view lines;
};

constexpr VerbExamples kVerbExamples[] = {
    {"run", R"(  gpupeak run -- onnxruntime_perf_test -e cuda -I -r 100 model.onnx
  gpupeak run -o bert.gplog -- python3 train.py
  gpupeak run --host off -- ./bench             the device alone: next to no cost
  gpupeak run --children all -o ranks.%p.gplog -- torchrun --nproc-per-node 4 train.py)"},
    {"mark", R"(  gpupeak mark 4711 'warm-up done'
  gpupeak mark bert.gplog 'warm-up done')"},
    {"attach", R"(  gpupeak attach 4711                # it was started without gpupeak
  gpupeak attach -o server.gplog --host auto 4711
  gpupeak run --dormant -o server.gplog -- ./server &
  gpupeak attach 4711                # some time later: its heap is recorded from now on)"},
    {"detach", R"(  gpupeak detach 4711 && gpupeak report server.gplog)"},
    {"report", R"(  gpupeak report bert.gplog
  gpupeak report 4711                           the log of a process that runs
  gpupeak report --within 'first run' bert.gplog  its highest, and by whom
  gpupeak report --at 17.9 --scope device:0 bert.gplog
  gpupeak report --by module --top 20 bert.gplog
  gpupeak report --json bert.gplog | jq '.metrics["device.peak_bytes"]'
  gpupeak report --html bert.html bert.gplog)"},
    {"diff", R"(  gpupeak diff before.gplog after.gplog
  gpupeak diff --by function baseline.json after.gplog
  gpupeak diff bert.gplog --at 'warm-up done' --at end
  gpupeak diff a.gplog b.gplog c.gplog
  gpupeak diff --html abc.html a.gplog b.gplog
  gpupeak diff runs --against runs-of-last-week)"},
    {"watch", R"(  gpupeak watch --max device.peak_bytes=70GiB 4711 || kill 4711
  gpupeak watch --max-growth 0 train.gplog || kill 4711   grows at each step
  gpupeak watch --wait 10 --max device.peak_bytes=70GiB train.gplog)"},
    {"check", R"(  gpupeak check --max device.peak_bytes=8GiB bert.gplog
  gpupeak check --baseline before.gplog --max-increase device.peak_bytes=2% after.gplog)"},
    {"metrics", R"(  gpupeak metrics bert.gplog
  gpupeak metrics --format jsonl --label commit=1a2b3c bert.gplog >> history.jsonl)"},
    {"merge", R"(  gpupeak merge rank0.gplog rank1.gplog
  srun --ntasks-per-node=1 gpupeak merge --partial parts.%h.gpmerge logs
  gpupeak merge parts.*.gpmerge                 the same as of all logs at once)"},
    {"bundle", R"(  gpupeak bundle bert.gplog                  makes bert.gpbundle
  gpupeak bundle --symbols bert.gplog        makes bert.gplog.symbols
  gpupeak bundle --log bert.gplog            makes bert.gplog.zst
  gpupeak bundle --undo bert.gplog.zst       and bert.gplog again)"},
    {"tree", R"(  gpupeak tree bert.gplog
  gpupeak tree --scope host --min-percent 5 bert.gplog
  gpupeak tree --flame --depth 12 bert.gplog)"},
    {"leaks", R"(  gpupeak leaks bert.gplog
  gpupeak leaks --scope host/heap bert.gplog)"},
    {"view",
     R"(  gpupeak view bert.gplog                    keys: 1 to 4, arrows, Enter, / to search, q
  gpupeak view --scope host bert.gplog)"},
    {"mcp",
     R"(  gpupeak mcp logs                           for a program that asks, over its stdin and stdout)"},
    {"temporary", R"(  gpupeak temporary --top 5 bert.gplog)"},
    {"tags", R"(  gpupeak tags --tag 'weights=*SaveInitializedTensors' bert.gplog
  gpupeak tags --rules pytorch bert.gplog)"},
    {"phases", R"(  gpupeak phases bert.gplog
  gpupeak phases --rules onnxruntime bert.gplog)"},
    {"rules", R"(  gpupeak rules                              lists the sets
  gpupeak rules pytorch > mine.toml)"},
    {"export", R"(  gpupeak export chrome bert.gplog -o bert.json
  gpupeak export sqlite bert.gplog -o bert.sqlite
  gpupeak export events bert.gplog | grep device_alloc)"},
    {"timeline", R"(  gpupeak timeline bert.gplog
  gpupeak timeline --svg bert.svg bert.gplog
  gpupeak timeline --by tag --size column --pdf bert.pdf bert.gplog)"},
    {"whatif", R"(  gpupeak whatif bert.gplog                  what would lower the peak
  gpupeak whatif --scale activations=0.5 bert.gplog
  gpupeak whatif --expandable-segments --html bert.html bert.gplog)"},
    {"fit", R"(  gpupeak fit bert.gplog                     which cards would do
  gpupeak fit --capacity 24GiB bert.gplog
  gpupeak fit --gpu T4 bert.gplog)"},
    {"sweep", R"(  gpupeak sweep -P batch=1,2,4,8 -- python3 train.py --batch {batch}
  gpupeak sweep -P batch=8:64:8 --capacity 24GiB --verify -- python3 train.py --batch {batch})"},
    {"serve",
     R"(  gpupeak serve logs                         then: curl http://127.0.0.1:9464/metrics
  gpupeak serve --textfile /var/lib/prometheus/node-exporter/gpupeak.prom logs)"},
    {"top", R"(  gpupeak top                                programs whose logs lie here
  gpupeak top 4711
  gpupeak top --once train.gplog)"},
    {"tables", R"(  gpupeak tables history train.gplog
  gpupeak tables --run job4711 --label commit=1a2b3c history rank*.gplog)"},
};

std::string_view all_of(std::string_view verb) {
  if (verb.empty()) return kExamples;
  for (const VerbExamples& examples : kVerbExamples) {
    if (examples.verb == verb) return examples.lines;
  }
  return {};
}

bool can_be_done(const std::string& line) {
  if (line.find(" --html ") != std::string::npos) return collector::has_page();
  if (line.find("gpupeak serve ") != std::string::npos) return !server_program().empty();
  return true;
}

}  // namespace

std::string examples_of(std::string_view verb) {
  std::istringstream lines{std::string(all_of(verb))};
  std::string possible;
  for (std::string line; std::getline(lines, line);) {
    if (can_be_done(line)) possible += line + "\n";
  }
  if (verb.empty() || possible.empty()) return possible;
  return "Examples:\n" + possible;
}

}  // namespace gpupeak::tools
