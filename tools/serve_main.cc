// gpupeak_serve: what `gpupeak serve` becomes. A program of its own, since the libraries of
// prometheus-cpp are shared ones, which the command, that moves between machines, must not need.
// usage: gpupeak_serve FOLDER LISTEN TEXTFILE EVERY_SECONDS MOST   (a text of "" is none; TEXTFILE
// "-": prints once)
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>

#include "serve_families.h"

namespace gpupeak::tools {
namespace {

constexpr int kFailed = 125;

/// Looks at the folder when it is asked; two may ask at once.
class Logs : public prometheus::Collectable {
 public:
  Logs(const char* folder, size_t most) : folder_(folder, most) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    return metric_families(folder_.look());
  }

 private:
  mutable std::mutex mutex_;
  mutable LogFolder folder_;
};

void print(const Logs& logs, std::ostream& out) {
  prometheus::TextSerializer().Serialize(out, logs.Collect());
}

/// Who reads it finds the old content or the new one, whole.
bool replace(const Logs& logs, const std::string& path) {
  const std::string next = path + ".tmp";  // node_exporter reads *.prom alone
  std::ofstream file(next, std::ios::trunc);
  print(logs, file);
  file.close();
  if (file && rename(next.c_str(), path.c_str()) == 0) return true;
  std::cerr << "gpupeak: cannot write " << path << ": " << strerror(errno) << '\n';
  unlink(next.c_str());
  return false;
}

sigset_t ends() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

int serve_text(const Logs& logs, const std::string& path, time_t every_seconds) {
  const sigset_t set = ends();
  const timespec pause{every_seconds, 0};
  do {
    if (!replace(logs, path)) return kFailed;
  } while (sigtimedwait(&set, nullptr, &pause) < 0);
  return 0;
}

int serve_http(const std::shared_ptr<Logs>& logs, const std::string& listen) {
  try {
    prometheus::Exposer exposer(listen);
    exposer.RegisterCollectable(logs);
    const bool any_port = listen.ends_with(":0");
    const std::string place = any_port ? listen.substr(0, listen.size() - 1) +
                                             std::to_string(exposer.GetListeningPorts().front())
                                       : listen;
    std::cout << "gpupeak: http://" << place << "/metrics" << std::endl;
    const sigset_t set = ends();
    int number = 0;
    sigwait(&set, &number);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "gpupeak: cannot listen at " << listen << ": " << error.what() << '\n';
    return kFailed;
  }
}

}  // namespace
}  // namespace gpupeak::tools

int main(int argc, char** argv) {
  using namespace gpupeak::tools;
  if (argc != 6) return kFailed;
  const std::string listen = argv[2], text = argv[3];
  const sigset_t set = ends();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // also in the threads that answer
  const auto logs = std::make_shared<Logs>(argv[1], std::stoul(argv[5]));
  if (text == "-") {
    print(*logs, std::cout);
    return std::cout.flush() ? 0 : kFailed;
  }
  return text.empty() ? serve_http(logs, listen) : serve_text(*logs, text, std::stol(argv[4]));
}
