// totals LOG…: whether what each export of a log adds up to is what the report says: peak, live at
// the end, allocated, for each scope and to the byte. Prints what differs; exit code 1 if anything
// does. Logs that nobody can read (the tests damage some on purpose) are passed over.
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/export/export.h"
#include "collector/log/kinds.h"
#include "collector/merge/merge.h"
#include "collector/text/error.h"

namespace {

using namespace gpupeak::collector;
using Json = nlohmann::json;

int failures = 0;

/// A sum as an export's reader would add it up.
struct Sum {
  int64_t now = 0, peak = 0;
  void add(int64_t bytes) {
    now += bytes;
    peak = std::max(peak, now);
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

uint8_t kind_of(const std::string& path) {
  for (uint8_t kind = 1; kind < GPUPEAK_KIND_LIMIT; ++kind) {
    if (kind_path(kind) == path) return kind;
  }
  throw std::runtime_error("no such kind: " + path);
}

/// Values in Python's pickle format, as far as the exports use it.
class Unpickler {
 public:
  explicit Unpickler(const std::string& bytes) : bytes_(bytes) {}

  Json read() {
    while (true) {
      const auto code = static_cast<uint8_t>(bytes_.at(at_++));
      switch (code) {
        case 0x80:
          ++at_;
          break;
        case '}':
          stack_.push_back(Json::object());
          break;
        case ']':
          stack_.push_back(Json::array());
          break;
        case '(':
          marks_.push_back(stack_.size());
          break;
        case 'u':
        case 'e':
          fill(code == 'u');
          break;
        case 0x86: {
          const Json second = take();
          const Json first = take();
          stack_.push_back(Json::array({first, second}));
          break;
        }
        case 'X': {
          const uint64_t size = number(4);
          stack_.push_back(bytes_.substr(at_, size));
          at_ += size;
          break;
        }
        case 'J':
          stack_.push_back(static_cast<int64_t>(static_cast<int32_t>(number(4))));
          break;
        case 0x8a:
          ++at_;
          stack_.push_back(static_cast<int64_t>(number(8)));
          break;
        case 0x88:
        case 0x89:
          stack_.push_back(code == 0x88);
          break;
        case 'r':
          memory_[number(4)] = stack_.back();
          break;
        case 'j':
          stack_.push_back(memory_.at(number(4)));
          break;
        case '.':
          return take();
        default:
          throw std::runtime_error(fmt::format("pickle: unknown instruction {:#x}", code));
      }
    }
  }

 private:
  Json take() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_.at(at_++))) << (8 * i);
    }
    return value;
  }
  void fill(bool dict) {
    const size_t first = marks_.back();
    marks_.pop_back();
    Json& container = stack_.at(first - 1);
    for (size_t i = first; i < stack_.size(); i += dict ? 2 : 1) {
      if (dict) {
        container[stack_[i].get<std::string>()] = std::move(stack_[i + 1]);
      } else {
        container.push_back(std::move(stack_[i]));
      }
    }
    stack_.resize(first);
  }

  const std::string& bytes_;
  size_t at_ = 0;
  std::vector<Json> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Json> memory_;
};

std::string gunzip(const std::string& packed) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int result = Z_OK;
  while (result == Z_OK) {
    char piece[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(piece, sizeof piece - stream.avail_out);
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("pprof: not gzip");
  return text;
}

/// One scope of one log.
class Totals {
 public:
  Totals(const std::string& log, Profile& profile, ScopeId scope, uint64_t peak)
      : log_(log), profile_(profile), scope_(scope), peak_(static_cast<int64_t>(peak)) {
    now_ = static_cast<int64_t>(profile.sum(scope).current);
    for (GroupId group{0}; group < profile.replay().sites().group_count(); ++group) {
      if (!profile.counts_into(group, scope)) continue;
      allocated_ += static_cast<int64_t>(profile.replay().peaks().group(group).alloc_bytes);
    }
    is_driver_only_ = info().name.starts_with("device") || info().kind == GPUPEAK_KIND_PINNED;
  }

  void check() {
    massif();
    heaptrack();
    pprof();
    chrome();
    speedscope();
    folded();
    sqlite();
    mxnet_csv();
    csv();
    if (info().name.starts_with("device")) torch_snapshot();
  }

 private:
  const ScopeInfo& info() const { return profile_.scope_info(scope_); }

  void expect(const char* what, int64_t found, int64_t expected) const {
    if (found == expected) return;
    ++failures;
    fmt::print("{}: {}: {} is {}, the report says {}\n", log_, info().name, what, found, expected);
  }

  std::string text(std::string_view name) {
    for (const ExportFormat& format : export_formats()) {
      if (format.name != name) continue;
      std::ostringstream out;
      format.write(profile_, {info().name, {}}, out);
      return out.str();
    }
    throw std::logic_error("no such format");
  }

  bool counts(uint8_t kind, int32_t device) const {
    return gpupeak::collector::counts_into(SiteContext{kind, device}, info());
  }

  void massif() {
    int64_t most = 0, last = 0;
    for (const std::string& line : lines_of(text("massif"))) {
      if (!line.starts_with("mem_heap_B=")) continue;
      last = std::stoll(line.substr(line.find('=') + 1));
      most = std::max(most, last);
    }
    expect("massif's peak", most, peak_);
    expect("massif's end", last, now_);
  }

  void heaptrack() {
    std::vector<int64_t> sizes;
    Sum sum;
    for (const std::string& line : lines_of(text("heaptrack"))) {
      if (line.size() < 3 || std::string_view("a+-").find(line[0]) == std::string_view::npos)
        continue;
      const auto value = static_cast<size_t>(std::stoull(line.substr(2), nullptr, 16));
      if (line[0] == 'a') sizes.push_back(static_cast<int64_t>(value));
      if (line[0] == '+') sum.add(sizes.at(value));
      if (line[0] == '-') sum.add(-sizes.at(value));
    }
    expect("heaptrack's peak", sum.peak, peak_);
    expect("heaptrack's end", sum.now, now_);
  }

  void pprof() {
    constexpr uint32_t kSample = 2, kValue = 2;
    const std::string proto = gunzip(text("pprof"));
    std::vector<int64_t> sums(4);
    for (protozero::pbf_reader profile(proto); profile.next(kSample);) {
      protozero::pbf_reader sample = profile.get_message();
      size_t column = 0;
      while (sample.next(kValue)) {
        for (const int64_t value : sample.get_packed_int64()) sums.at(column++) += value;
      }
    }
    expect("pprof's peak", sums[0], peak_);
    expect("pprof's end", sums[2], now_);
    expect("what pprof has allocated", sums[3], allocated_);
  }

  void chrome() {
    int64_t most = 0, last = 0;
    Sum blocks;
    std::map<std::string, int64_t> live;
    const Json trace = Json::parse(text("chrome"));
    for (const Json& event : trace.at("traceEvents")) {
      const std::string type = event.at("ph");
      if (type == "C" && event.at("name") == info().name) {
        last = event.at("args").at("bytes");
        most = std::max(most, last);
      }
      if (event.value("cat", "") != "block") continue;
      const std::string id = event.at("id");
      if (type == "b") blocks.add(live[id] = event.at("args").at("bytes"));
      if (type == "e") blocks.add(-live.at(id));
    }
    expect("chrome's counter at most", most, peak_);
    expect("chrome's counter at the end", last, now_);
    if (!is_driver_only_) return;
    expect("the peak of chrome's blocks", blocks.peak, peak_);
    expect("what is left of chrome's blocks", blocks.now, now_);
  }

  void speedscope() {
    const Json file = Json::parse(text("speedscope"));
    const char* names[] = {"speedscope's peak", "speedscope's end", "what speedscope allocates"};
    const int64_t expected[] = {peak_, now_, allocated_};
    for (size_t i = 0; i < 3; ++i) {
      int64_t sum = 0;
      for (const Json& weight : file.at("profiles").at(i).at("weights"))
        sum += weight.get<int64_t>();
      expect(names[i], sum, expected[i]);
    }
  }

  void folded() {
    int64_t sum = 0;
    for (const std::string& line : lines_of(text("folded"))) {
      sum += std::stoll(line.substr(line.rfind(' ') + 1));
    }
    expect("folded's sum", sum, peak_);
  }

  void mxnet_csv() {
    constexpr double kMiB = 1 << 20;
    int64_t sum = 0;
    for (const std::string& line : lines_of(text("mxnet-csv"))) {
      sum += std::llround(std::stod(line.substr(line.rfind(',') + 1)) * kMiB);
    }
    expect("mxnet-csv's sum", sum, peak_);
  }

  /// Texts stand in quotes where they have a comma.
  static std::vector<std::string> csv_fields(const std::string& line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted)
        fields.emplace_back();
      else
        fields.back() += c;
    }
    return fields;
  }

  void csv() {
    int64_t peak = 0, now = 0, allocated = 0;
    const std::vector<std::string> lines = lines_of(text("csv"));
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string> fields = csv_fields(lines[i]);
      peak += std::stoll(fields.at(3));
      now += std::stoll(fields.at(5));
      allocated += std::stoll(fields.at(7));
    }
    expect("csv's peak", peak, peak_);
    expect("csv's leaked bytes", now, now_);
    expect("csv's allocated bytes", allocated, allocated_);
  }

  void sqlite() {
    char path[] = "/tmp/gpupeak-totals-XXXXXX";
    close(mkstemp(path));
    unlink(path);
    export_sqlite(profile_, {info().name, {}}, path);
    sqlite3* database = nullptr;
    if (sqlite3_open(path, &database) != SQLITE_OK) throw std::runtime_error("sqlite");
    unlink(path);
    const auto rows = [&](const std::string& sql, const auto& take) {
      sqlite3_stmt* statement = nullptr;
      if (sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
        throw std::runtime_error(sqlite3_errmsg(database));
      }
      while (sqlite3_step(statement) == SQLITE_ROW) take(statement);
      sqlite3_finalize(statement);
    };
    int64_t peak = 0, holders = 0;
    rows("SELECT bytes FROM GPUPEAK_PEAKS WHERE scope = '" + info().name + "'",
         [&](sqlite3_stmt* row) { peak = sqlite3_column_int64(row, 0); });
    rows("SELECT bytes FROM GPUPEAK_HOLDERS WHERE scope = '" + info().name + "'",
         [&](sqlite3_stmt* row) { holders += sqlite3_column_int64(row, 0); });
    expect("sqlite's peak", peak, peak_);
    expect("sqlite's holders", holders, peak_);
    Sum of_tables[2];
    const char* tables[] = {
        "SELECT CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes END, gpupeakKind, deviceId "
        "FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER BY start",
        "SELECT bytes, kind, deviceId FROM GPUPEAK_CHANGES ORDER BY start"};
    for (size_t i = 0; i < 2; ++i) {
      rows(tables[i], [&](sqlite3_stmt* row) {
        const bool known = sqlite3_column_type(row, 2) != SQLITE_NULL;
        const uint8_t kind = kind_of(reinterpret_cast<const char*>(sqlite3_column_text(row, 1)));
        if (counts(kind, known ? sqlite3_column_int(row, 2) : -1))
          of_tables[i].add(sqlite3_column_int64(row, 0));
      });
    }
    sqlite3_close(database);
    expect("what sqlite's changes leave", of_tables[0].now + of_tables[1].now, now_);
    const bool in_one_table = of_tables[0].peak == 0 || of_tables[1].peak == 0;
    if (in_one_table) {
      expect("the peak of sqlite's changes", of_tables[0].peak + of_tables[1].peak, peak_);
    }
  }

  void torch_snapshot() {
    const std::string bytes = text("torch-snapshot");
    const Json snapshot = Unpickler(bytes).read();
    // Created and not mapped in the end: without an address, and in no trace.
    constexpr int64_t kNoAddress = int64_t{1} << 48;
    int64_t now = 0, unmapped = 0;
    for (const Json& segment : snapshot.at("segments")) {
      const int64_t size = segment.at("total_size");
      now += size;
      if (segment.at("is_expandable").get<bool>() && segment.at("address") >= kNoAddress) {
        unmapped += size;
      }
    }
    expect("what torch-snapshot's segments hold", now, now_);
    if (info().device < 0) return;  // of all devices: a trace each
    Sum trace;
    for (const Json& events : snapshot.at("device_traces")) {
      for (const Json& event : events) {
        const int64_t size = event.at("size");
        const std::string& action = event.at("action").get_ref<const std::string&>();
        if (action == "segment_alloc" || action == "segment_map") trace.add(size);
        if (action == "segment_free" || action == "segment_unmap") trace.add(-size);
      }
    }
    expect("torch-snapshot's peak", trace.peak, peak_);
    expect("torch-snapshot's end", trace.now + unmapped, now_);
  }

  const std::string& log_;
  Profile& profile_;
  const ScopeId scope_;
  const int64_t peak_;
  int64_t now_ = 0, allocated_ = 0;
  bool is_driver_only_ = false;
};

void check_merge(const std::string& log, const Summary& summary) {
  std::map<std::string, uint64_t> peaks;
  for (const Peak& peak : summary.peaks) peaks[peak.scope] = peak.bytes;
  ProcessSet set;
  set.add_log(log, {});
  const Merged merged = merge(set.take());
  for (const MergedSum& sum : merged.nodes.front().sums) {
    const auto peak = peaks.find(sum.scope);
    if (peak == peaks.end() || !sum.sum_of_peaks_bytes) continue;
    const bool of_host = sum.scope == "host";  // coarse times: an upper bound
    const bool same = *sum.sum_of_peaks_bytes == peak->second &&
                      (!sum.peak_bytes || (of_host ? *sum.peak_bytes >= peak->second
                                                   : *sum.peak_bytes == peak->second));
    if (same) continue;
    ++failures;
    fmt::print("{}: merge: {} is {}, the report says {}\n", log, sum.scope, *sum.sum_of_peaks_bytes,
               peak->second);
  }
}

bool check(const std::string& log) {
  try {
    Options options;
    options.stacks = false;
    Profile profile(log);
    const Summary summary = summarize(profile, options);
    for (const Peak& peak : summary.peaks) {
      Totals(log, profile, profile.scope(peak.scope), peak.bytes).check();
    }
    check_merge(log, summary);
    return true;
  } catch (const LogError&) {
    return false;
  } catch (const std::exception& error) {
    ++failures;
    fmt::print("{}: {}\n", log, error.what());
    return true;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int read = 0;
  for (int i = 1; i < argc; ++i) read += check(argv[i]);
  fmt::print("{} logs, {} of them readable, {} totals differ\n", argc - 1, read, failures);
  return failures > 0 || read == 0 ? 1 : 0;
}
