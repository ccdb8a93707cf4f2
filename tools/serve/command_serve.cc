#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/commands.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

struct ServeOptions {
  std::string folder, listen = "127.0.0.1:9464", textfile, otlp, procfs = "/proc";
  double every = 15;
  size_t most = 1000;
};

int serve(const ServeOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.folder, error))
    throw collector::UsageError("there is no folder '" + collector::escape(options.folder) + "'");
  if (options.listen.find(':') == std::string::npos)
    throw collector::UsageError("--listen " + collector::escape(options.listen) +
                                ": an address and a port, such as 127.0.0.1:9464");
  const std::string program = server_program();
  if (program.empty()) {
    say("serve is not in this build: it needs prometheus-cpp. On Debian or Ubuntu: apt-get install "
        "prometheus-cpp-dev, then build gpupeak from its source (docs/fleet.md)");
    return kOwnFailure;
  }
  const std::string every = std::to_string(static_cast<long>(options.every));
  const std::string most = std::to_string(options.most);
  const std::vector<std::string> words = {program, options.folder, options.listen, options.textfile,
                                          every,   most,           options.procfs, options.otlp};
  const std::vector<char*> arguments = exec_arguments(words);
  execv(program.c_str(), arguments.data());
  say("cannot start {}: {}", program, strerror(errno));
  return kOwnFailure;
}

}  // namespace

void add_serve(CommandLine& line) {
  auto [verb, options] = line.add(
      "serve",
      server_program().empty() ? "Metrics for Prometheus (not in this build: docs/fleet.md)"
                               : "Metrics of a folder's logs for Prometheus",
      serve,
      R"(  gpupeak serve logs                         then: curl http://127.0.0.1:9464/metrics
  gpupeak serve --textfile /var/lib/prometheus/node-exporter/gpupeak.prom logs)");
  add_required(verb, "folder", options.folder, "FOLDER",
               "Where the logs are, in folders of it, too");
  add_value(verb, "--listen", options.listen, "ADDRESS:PORT",
            "Where Prometheus asks; port 0: any that is free")
      ->capture_default_str();
  add_value(verb, "--textfile", options.textfile, "FILE",
            "Write a file for node_exporter in place of listening; -: print it once");
  add_value(verb, "--otlp", options.otlp, "URL",
            "Send OTLP by HTTP in place of listening; env: where OTEL_EXPORTER_OTLP_ENDPOINT says");
  add_number(verb, "--every", options.every, 1, 86400,
             "Write that file, or send, every so many seconds");
  add_value(verb, "--procfs", options.procfs, "DIR",
            "The machine's /proc, where a container has it elsewhere: tells whose pod it is")
      ->capture_default_str();
  add_number(verb, "--logs", options.most, 1, 100'000,
             "Show so many logs: those that run, then the newest");
}

}  // namespace gpupeak::tools
