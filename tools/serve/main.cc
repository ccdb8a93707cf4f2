// gpupeak_serve: the program that `gpupeak serve` becomes. It is a program of its own, since
// prometheus-cpp's libraries are shared. The command must not need these: it is copied between
// machines.
// usage: gpupeak_serve FOLDER LISTEN TEXTFILE EVERY_SECONDS MOST PROCFS OTLP   ("": not used;
// TEXTFILE "-": prints once)

#include <CivetServer.h>
#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "collector/files/fresh_file.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/serve/serve.h"

namespace gpupeak::tools {
namespace {

// The page at the root of the server, for a person with a browser or curl: the server's addresses,
// and the programs.

constexpr const char* kHead =
    "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
    "content=\"width=device-width\"><title>gpupeak serve</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;"
    "color:#1a202c;background:#fff}table{border-collapse:collapse}th,td{text-align:left;padding:."
    "2em 1.2em .2em 0;border-bottom:1px solid "
    "#ddd;vertical-align:top}.n{text-align:right;white-space:nowrap}.wide{overflow-x:auto}code{"
    "font-size:95%}@media(prefers-color-scheme:dark){body{color:#e2e8f0;background:#171923}th,td{"
    "border-color:#444}a{color:#90cdf4}}</style>\n";

std::string shown(std::string_view text) {
  return collector::xml_text(collector::escape(text));
}

std::string sizes(const gpupeak_counters_page& counters, bool live) {
  std::string text;
  for (uint32_t number = 0; number < GPUPEAK_LOG_MAX_DEVICES; ++number) {
    const gpupeak_device_counters& device = counters.device[number];
    if (device.alloc_count == 0) continue;
    text += fmt::format("{}GPU {}: {}", text.empty() ? "" : "<br>", number,
                        collector::size_text(live ? device.total.live : device.total.peak));
  }
  return text.empty() ? "–" : text;
}

std::string row(const FolderLog& log) {
  const gpupeak_file_header& header = log.head.header;
  const auto or_dash = [](const std::string& text) { return text.empty() ? "–" : shown(text); };
  const auto* end = std::find(std::begin(header.tool_version), std::end(header.tool_version), '\0');
  return fmt::format(
      "<tr><td>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td>{}<td class=n>{}<td "
      "class=n>{}<td>{}\n",
      shown(log.name), collector::kLogStates[static_cast<size_t>(log.state)],
      or_dash(log.facts.program), header.pid, header.rank < 0 ? "–" : std::to_string(header.rank),
      or_dash(log.facts.host), log.is_live() ? sizes(log.head.counters, true) : "–",
      sizes(log.head.counters, false),
      shown({header.tool_version, static_cast<size_t>(end - header.tool_version)}));
}

/// A page of HTML that loads nothing else. `folder`: the name of the logs' folder.
std::string index_page(const FolderView& view, const std::string& folder) {
  std::string page = kHead;
  page += "<h1>gpupeak serve " GPUPEAK_VERSION
          "</h1>\n<p>The exact GPU memory of the programs whose logs lie in <code>" +
          shown(folder) +
          "</code>, as the logs say now.\n<ul><li><a href=\"/metrics\">/metrics</a>: for "
          "Prometheus<li><a href=\"/\">/</a>: this page</ul>\n";
  page += "<h2>Programs</h2>\n";
  if (view.logs.empty()) {
    page += "<p>No log yet.\n";
  } else {
    page +=
        "<div "
        "class=wide><table>\n<tr><th>log<th>state<th>program<th>pid<th>rank<th>host<th>now<th>peak<"
        "th>recorded by\n";
    for (const FolderLog& log : view.logs) page += row(log);
    page += "</table></div>\n";
  }
  for (const auto& [what, count] :
       {std::pair("Older logs that are left out (<code>--logs</code>)", view.left_out),
        std::pair("Files that are named as logs and cannot be read", view.unreadable)})
    if (count > 0) page += std::string("<p>") + what + ": " + std::to_string(count) + ".\n";
  page +=
      "<p>Peaks are high-water marks of the driver's own counts, never sampled. In a terminal: "
      "<code>gpupeak top " +
      shown(folder) + "</code>; who held a peak: <code>gpupeak report LOG</code>.\n";
  return page;
}

constexpr int kFailed = 125;

/// Looks at the folder at each request. Two requests may come at once.
class Logs : public prometheus::Collectable {
 public:
  Logs(const char* folder, size_t most, const char* procfs)
      : name_(folder), folder_(folder, most), pods_(procfs) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    const FolderView view = look();
    std::vector<prometheus::MetricFamily> families = log_families(view.logs, pods_);
    std::ranges::move(folder_families(view, nvml_.all()), std::back_inserter(families));
    return families;
  }
#ifdef GPUPEAK_HAS_CURL
  std::string otlp(uint64_t time_ns) const {
    const FolderView view = look();
    return otlp_request(view, pods_, nvml_.all(), time_ns);
  }
#endif
  std::string page() const {
    const std::lock_guard lock(mutex_);
    return index_page(folder_.look(), name_);
  }

 private:
  FolderView look() const {
    FolderView view = folder_.look();
    pods_.look(view);
    return view;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  mutable collector::LogFolder folder_;
  mutable Pods pods_;
  mutable Nvml nvml_;
};

void print(const Logs& logs, std::ostream& out) {
  prometheus::TextSerializer().Serialize(out, logs.Collect());
}

/// Writes the metrics to the file. A reader finds the old content or the new one, always whole.
bool replace(const Logs& logs, const std::string& path) {
  try {
    collector::write_fresh(collector::followed(path), [&](std::ostream& out) { print(logs, out); });
    return true;
  } catch (const std::runtime_error& error) {
    std::cerr << "gpupeak: " << error.what() << '\n';
    return false;
  }
}

sigset_t ends() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

/// Whether it is to end, by then.
bool ends_within(time_t seconds) {
  const sigset_t set = ends();
  const timespec pause{seconds, 0};
  return sigtimedwait(&set, nullptr, &pause) >= 0;
}

int serve_text(const Logs& logs, const std::string& path, time_t every_seconds) {
  do {
    if (!replace(logs, path)) return kFailed;
  } while (!ends_within(every_seconds));
  return 0;
}

const Logs* shown_at_root = nullptr;  // global: the HTTP server passes callbacks no pointer of ours

/// Answers a request for `/`. Other requests are left to the server.
int answer_root(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  if (request->local_uri == nullptr || std::strcmp(request->local_uri, "/") != 0) return 0;
  const bool is_head = std::strcmp(request->request_method, "HEAD") == 0;
  if (!is_head && std::strcmp(request->request_method, "GET") != 0) return 0;
  const std::string page = shown_at_root->page();
  mg_printf(connection,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %zu\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            page.size());
  if (!is_head) mg_write(connection, page.data(), page.size());
  constexpr int kAnswered = 200;
  return kAnswered;
}

#ifdef GPUPEAK_HAS_CURL
/// Sends again and again, and once more when told to end: so the ends of programs are not lost.
int send_otlp(const Logs& logs, const std::string& given, time_t every_seconds) {
  const std::string url = otlp_endpoint(given);
  if (url.empty()) {
    std::cerr << "gpupeak: --otlp env: set OTEL_EXPORTER_OTLP_ENDPOINT\n";
    return kFailed;
  }
  OtlpSender sender(url);
  const auto send = [&] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    return sender.send(logs.otlp(static_cast<uint64_t>(ns)));
  };
  do {
    send();
  } while (!ends_within(every_seconds));
  return send() ? 0 : kFailed;
}
#else
int send_otlp(const Logs&, const std::string&, time_t) {
  std::cerr << "gpupeak: --otlp is not in this build: it needs libcurl. On Debian or Ubuntu: "
               "apt-get install libcurl4-openssl-dev, then build gpupeak from its source\n";
  return kFailed;
}
#endif

int serve_http(const std::shared_ptr<Logs>& logs, const std::string& listen) {
  try {
    shown_at_root = logs.get();
    CivetCallbacks callbacks;
    callbacks.begin_request = answer_root;
    // Many threads and a short timeout: a client whose request stays incomplete holds nobody up.
    prometheus::Exposer exposer({"listening_ports", listen, "num_threads", "32",
                                 "request_timeout_ms", "5000", "enable_keep_alive", "no"},
                                &callbacks);
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
  if (argc != 8) return kFailed;
  const std::string listen = argv[2], text = argv[3], otlp = argv[7];
  const sigset_t set = ends();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // also in the threads that answer
  const auto logs = std::make_shared<Logs>(argv[1], std::stoul(argv[5]), argv[6]);
  if (text == "-") {
    print(*logs, std::cout);
    return std::cout.flush() ? 0 : kFailed;
  }
  if (!otlp.empty()) return send_otlp(*logs, otlp, std::stol(argv[4]));
  return text.empty() ? serve_http(logs, listen) : serve_text(*logs, text, std::stol(argv[4]));
}
