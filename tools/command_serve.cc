#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "say.h"
#include "self.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServer = "gpupeak_serve";

struct ServeOptions {
  std::string folder, listen = "127.0.0.1:9464", textfile;
  double every = 15;
  size_t most = 1000;
};

/// Beside the command where it was built, in lib/gpupeak where it was installed.
fs::path server() {
  const fs::path bin = own_path().parent_path();
  const fs::path installed = bin.parent_path() / "lib" / "gpupeak" / kServer;
  return access(installed.c_str(), X_OK) == 0 ? installed : bin / kServer;
}

int serve(const ServeOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.folder, error))
    throw collector::UsageError("there is no folder '" + collector::escape(options.folder) + "'");
  if (options.listen.find(':') == std::string::npos)
    throw collector::UsageError("--listen " + collector::escape(options.listen) +
                                ": an address and a port, such as 127.0.0.1:9464");
  const std::string program = server();
  std::vector<std::string> words = {program,
                                    options.folder,
                                    options.listen,
                                    options.textfile,
                                    std::to_string(static_cast<long>(options.every)),
                                    std::to_string(options.most)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  if (errno == ENOENT) {
    say("serve is not in this build: it needs prometheus-cpp. On Debian or Ubuntu: apt-get install "
        "prometheus-cpp-dev, then build gpupeak from its source (docs/fleet.md)");
  } else {
    say("cannot start {}: {}", program, strerror(errno));
  }
  return kOwnFailure;
}

}  // namespace

void add_serve(CommandLine& line) {
  auto [verb, options] = line.add("serve", "Metrics of a folder's logs for Prometheus", serve);
  verb.add_option("folder", options.folder, "Where the logs are, in folders of it, too")
      ->required()
      ->type_name("FOLDER");
  verb.add_option("--listen", options.listen, "Where Prometheus asks; port 0: any that is free")
      ->type_name("ADDRESS:PORT")
      ->capture_default_str();
  verb.add_option("--textfile", options.textfile,
                  "Write a file for node_exporter in place of listening; -: print it once")
      ->type_name("FILE");
  verb.add_option("--every", options.every, "Write that file every so many seconds")
      ->check(between(1, 86400))
      ->capture_default_str();
  verb.add_option("--logs", options.most, "Show so many logs: those that run, then the newest")
      ->check(between(1, 100'000))
      ->capture_default_str();
}

}  // namespace gpupeak::tools
