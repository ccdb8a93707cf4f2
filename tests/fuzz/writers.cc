#include "writers.h"

#include <unistd.h>

#include <fstream>

#include "collector/analyze/analyze.h"
#include "collector/analyze/profile.h"
#include "collector/export/export.h"
#include "collector/log/packed_log.h"
#include "collector/merge/merge.h"
#include "collector/rules/cards.h"
#include "collector/symbols/keep_names.h"
#include "collector/text/error.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"

namespace gpupeak::testing {
namespace {

using namespace gpupeak::collector;

using SummaryWriter = std::function<void(const Summary& summary, std::ostream& out)>;
using ProfileWriter = std::function<void(Profile& profile, std::ostream& out)>;

constexpr size_t kTop = 100;

void check_sums(const Summary& summary) {
  for (const Peak& peak : summary.peaks) {
    uint64_t sum = peak.other_bytes;
    for (const Holder& holder : peak.holders) sum += holder.bytes;
    if (sum != peak.bytes) throw std::logic_error("holders do not add up to " + peak.scope);
  }
}

Writer of_summary(const char* name, SummaryWriter write) {
  return {name, [=](const std::string& path, const Reading& reading, std::ostream& out) {
            Options options;
            options.reading = reading;
            const Summary summary = analyze(path, options);
            check_sums(summary);
            write(summary, out);
          }};
}

Writer of_profile(std::string name, ProfileWriter write) {
  return {std::move(name), [=](const std::string& path, const Reading& reading, std::ostream& out) {
            Profile profile(path, {}, nullptr, reading);
            write(profile, out);
          }};
}

/// For formats such as SQLite's, whose exporter makes the file itself.
void export_to_file(const ExportFormat& format, Profile& profile, std::ostream& out) {
  const std::string path = "/tmp/gpupeak-fuzz." + std::to_string(getpid());
  struct Remover {
    const std::string& path;
    ~Remover() { unlink(path.c_str()); }
  } const remover{path};
  format.write_file(profile, {}, path);
  out << std::ifstream(path, std::ios::binary).rdbuf();
}

std::vector<Writer> make_writers() {
  const TextStyle style{true, 80};
  std::vector<Writer> all;
  all.push_back({"reader", [](const std::string& path, const Reading& reading, std::ostream&) {
                   Profile profile(path, {}, nullptr, reading);
                 }});
  all.push_back({"part", [](const std::string& path, const Reading& reading, std::ostream&) {
                   Profile profile(path + "#1", {}, nullptr, reading);
                 }});
  all.push_back(
      of_summary("text", [=](const Summary& s, std::ostream& o) { write_text(s, o, style); }));
  all.push_back(
      of_summary("short", [=](const Summary& s, std::ostream& o) { write_short(s, o, style); }));
  all.push_back(of_summary("json", write_json));
  all.push_back(of_summary("csv", write_csv));
  all.push_back(of_summary("phases", [=](const Summary& s, std::ostream& o) {
    write_phases(s, o, style);
    write_phases(s, o, kAsCsv);
  }));
  // These rules look at every frame of every stack.
  all.push_back(
      {"rules", [=](const std::string& path, const Reading& reading, std::ostream& out) {
         Options options;
         options.reading = reading;
         options.reading.rules = {{}, {"all=*!*", "named=name7*!*"}, {"engine=*7*!*", "rest=*"}};
         options.by = GroupBy::kTag;
         const Summary summary = analyze(path, options);
         check_sums(summary);
         write_text(summary, out, style);
       }});
  all.push_back({"dump", [](const std::string& path, const Reading& reading, std::ostream& out) {
                   write_dump(LogReader(path, reading.sanitizer), out);
                 }});
  all.push_back(of_summary("diff", [=](const Summary& s, std::ostream& o) {
    const Summary empty;
    write_diff(empty, s, kTop, o, style);
    write_diff(s, empty, 10, o, kAsJson);
  }));
  all.push_back(of_summary("check", [=](const Summary& s, std::ostream& o) {
    const auto results = check_gates(
        {parse_max("device.peak_bytes=1"), parse_max_increase("host.peak_bytes=1%")}, s, &s);
    write_gates(s, results, o, style);
    write_junit(s, results, o);
    write_markdown(s, results, o);
  }));
  all.push_back(of_summary("metrics", [](const Summary& s, std::ostream& o) {
    for (const std::string& format : metrics_formats()) write_metrics({s}, format, {}, o);
  }));
  all.push_back({"merge", [=](const std::string& path, const Reading& reading, std::ostream& out) {
                   ProcessSet set;
                   set.add_log(path, reading);
                   const Merged merged = merge(set.take());
                   write_merge(merged, out, style);
                   write_merge(merged, out, kAsJson);
                   // The partial result of any log can be read back.
                   const std::string record = record_text(merged.processes.front());
                   if (record_text(record_of(record)) != record) abort();
                   out << record;
                 }});
  all.push_back({"fit", [=](const std::string& path, const Reading& reading, std::ostream& out) {
                   Options options;
                   options.reading = reading;
                   const std::vector<LogNeeds> needs{needs_of(path, options)};
                   for (const FitQuestion& question :
                        {FitQuestion{600 << 20, nullptr, {}},
                         FitQuestion{std::nullopt, nullptr, builtin_cards()}}) {
                     const FitReport report = answer_fit(needs, question);
                     write_fit(report, kTop, out, style);
                     write_fit(report, kTop, out, kAsJson);
                   }
                 }});
  all.push_back({"bundle", [](const std::string& path, const Reading& reading, std::ostream& out) {
                   const LogReader log(path, reading.sanitizer);
                   const std::string symbols =
                       symbolize(log, {}, NameRules{}).table.json(log.header().cookie);
                   try {
                     write_packed({log.data(), log.file_bytes()}, symbols, out, {});
                   } catch (const TooUniform&) {
                   }
                 }});
  // Output of `report --json` and of `symbolize` is input, too, and may be damaged.
  all.push_back(
      {"summary_json", [=](const std::string& path, const Reading& reading, std::ostream& out) {
         Options options;
         options.reading = reading;
         write_text(load_summary(path, options), out, style);
       }});
  const TreeCut cut{0, 0};
  all.push_back(of_profile("held", [=](Profile& p, std::ostream& o) {
    const std::vector<Moment> moments{{}, {"main", {}}, {"", 1'000'000}, {"absent", {}}};
    write_held(p, p.scope(""), moments, kTop, o, style);
    write_held(p, p.scope(""), moments, kTop, o, kAsJson);
  }));
  all.push_back(of_profile("moments", [=](Profile& p, std::ostream& o) {
    const std::vector<ScopeId> scopes = sides(p);
    std::vector<NamedMoment> moments{peak_moment(p, p.scope(""))};
    for (const char* at : {"+1ms", "main.end", "end"}) {
      try {
        moments.push_back(find_moment(p, p.scope(""), at));
      } catch (const UsageError&) {  // the log has no such moment
      }
    }
    const std::vector<std::vector<Held>> held = held_at(p, scopes, moments);
    write_live(p, held.front(), GroupBy::kSite, kTop, o, style);
    write_live(p, held.front(), GroupBy::kSite, kTop, o, kAsJson);
    write_between(p, held.front(), held.back(), GroupBy::kSite, kTop, o, style);
    write_between(p, held.front(), held.back(), GroupBy::kModule, kTop, o, kAsJson);
  }));
  all.push_back(of_profile("tree", [=](Profile& p, std::ostream& o) {
    write_tree(p, held_at_peak(p, p.scope("")), cut, o, style);
    write_tree(p, held_at_peak(p, p.scope("")), cut, o, kAsJson);
  }));
  all.push_back(of_profile("flame", [=](Profile& p, std::ostream& o) {
    write_flame(p, held_at_peak(p, p.scope("")), cut, o, style);
    write_flame(p, held_at_peak(p, p.scope("")), cut, o, kAsJson);
  }));
  all.push_back(of_profile("leaks", [=](Profile& p, std::ostream& o) {
    write_leaks(p, "", kTop, o, style);
    write_leaks(p, "", kTop, o, kAsJson);
  }));
  all.push_back(of_profile("temporary", [=](Profile& p, std::ostream& o) {
    write_temporary(p, "", kTop, o, style);
    write_temporary(p, "", kTop, o, kAsJson);
  }));
  all.push_back(of_profile("tags", [=](Profile& p, std::ostream& o) {
    write_tags(p, held_at_peak(p, p.scope("")), kTop, o, style);
    write_tags(p, held_at_peak(p, p.scope("")), kTop, o, kAsJson);
    write_tags(p, held_at_peak(p, p.scope("")), kTop, o, kAsCsv);
  }));
  all.push_back(
      {"timeline", [=](const std::string& path, const Reading& reading, std::ostream& out) {
         TimeSeries times;
         Profile profile(path, {}, &times, reading);
         times.finish(profile.replay());
         std::vector<TimelineOf> timelines{{profile, times, ""}};
         for (const GroupBy by : kStackedBy)
           timelines.emplace_back(profile, times, "", stacked_over_time(profile, times, by));
         for (const TimelineOf& shown : timelines) {
           write_timeline(shown, 8, out, style);
           write_timeline(shown, 8, out, kAsJson);
           write_timeline(shown, 8, out, kAsCsv);
           write_timeline_svg(shown, PictureSize::kColumn, true, out);
         }
       }});
  all.push_back({"html", [](const std::string& path, const Reading& reading, std::ostream& out) {
                   TimeSeries times;
                   Profile profile(path, {}, &times, reading);
                   times.finish(profile.replay());
                   out << page_data(profile, times, read_for_page(profile, times), true);
                 }});
  all.push_back(
      {"compare", [=](const std::string& path, const Reading& reading, std::ostream& out) {
         Profiles runs;
         runs.push_back(std::make_unique<Profile>(path, Progress{}, nullptr, reading));
         runs.push_back(std::make_unique<Profile>(path, Progress{}, nullptr, reading));
         write_compare(runs, "", kTop, out, style);
         write_compare(runs, "", kTop, out, kAsJson);
       }});
  for (const ExportFormat& format : export_formats()) {
    all.push_back(
        of_profile("export." + std::string(format.name), [=](Profile& p, std::ostream& o) {
          if (format.write != nullptr) {
            format.write(p, {}, o);
          } else {
            export_to_file(format, p, o);
          }
        }));
  }
  return all;
}

}  // namespace

const std::vector<Writer>& writers() {
  static const std::vector<Writer> all = make_writers();
  return all;
}

}  // namespace gpupeak::testing
