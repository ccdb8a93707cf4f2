#include "collector/log/log_head.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "collector/files/regular_file.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "gpupeak/memory_kinds.h"

namespace gpupeak::collector {

LogFront read_front(const std::string& path, size_t most) {
  LogFront front;
  struct stat status {};
  const Descriptor file = open_regular(path, O_RDONLY, status);
  if (!file) return front;
  front.owner = status.st_uid;
  front.file_bytes = static_cast<uint64_t>(status.st_size);
  front.bytes.resize(most);
  const ssize_t got = pread(file.get(), front.bytes.data(), most, 0);
  front.bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  front.is_packed = is_packed(front.bytes);
  if (!front.is_packed) return front;
  const MappedFile package(path);
  front.bytes = unpack_front({package.data(), package.bytes()}, path, most);
  package.require_whole();
  return front;
}

LogHead read_head(const std::string& path) {
  const LogFront front = read_front(path, GPUPEAK_LOG_PAGE + GPUPEAK_COUNTERS_BYTES);
  LogHead head{{}, {}, front.file_bytes, front.owner};
  if (!parse_front(front.bytes, head.header, head.counters))
    throw LogError(escape(path) + " is no log of this version, nor the number of a process", 0);
  return head;
}

LogFacts read_facts(const std::string& path, const LogHead& head) {
  constexpr uint64_t kLargestDefinitions = 1 << 20;
  const Descriptor file = open_regular(path);
  const auto read = [&file](uint64_t offset, void* to, size_t bytes) {
    return file &&
           pread(file.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  std::map<uint64_t, std::vector<uint8_t>> chunks;  // of definitions, by their sequence numbers
  const uint64_t end = std::min(head.bytes, head.counters.file_bytes);
  uint64_t magic = 0;
  const bool is_log = read(0, &magic, sizeof magic) && magic == GPUPEAK_LOG_MAGIC;  // not packed
  gpupeak_chunk_header chunk;
  for (uint64_t offset = is_log ? head.header.chunks_offset : end;
       offset + sizeof chunk <= end && read(offset, &chunk, sizeof chunk);) {
    if (!is_chunk_of(head.header, chunk, offset)) {
      offset += GPUPEAK_LOG_PAGE;
      continue;
    }
    if (chunk.kind == GPUPEAK_CHUNK_DEFINITIONS && chunk.bytes <= kLargestDefinitions) {
      std::vector<uint8_t> body(chunk.bytes - sizeof chunk);
      if (read(offset + sizeof chunk, body.data(), body.size()))
        chunks.emplace(chunk.sequence, std::move(body));
    }
    offset += chunk.bytes;
  }
  Definitions definitions;
  uint64_t expected = 0;
  for (const auto& [sequence, body] : chunks) {
    if (sequence != expected++ || !definitions.read(body.data(), body.data() + body.size())) break;
  }
  LogFacts facts;
  facts.program = file_name(definitions.fact("exe"));
  facts.host = definitions.fact("host");
  facts.devices = definitions.devices();
  return facts;
}

bool is_of_this_boot(const gpupeak_file_header& header, const std::string& folder) {
  static const std::string id = [] {
    std::string text = read_regular("/proc/sys/kernel/random/boot_id", 64).value_or("");
    std::erase_if(text, [](unsigned char byte) { return isxdigit(byte) == 0; });
    return text;
  }();
  constexpr uint8_t kNotKnown[sizeof header.boot_id] = {};
  // An older gpupeak wrote none.
  if (memcmp(header.boot_id, kNotKnown, sizeof kNotKnown) == 0) return true;
  const std::string theirs =
      hex_text({reinterpret_cast<const char*>(header.boot_id), sizeof header.boot_id});
  struct stat space {};
  return theirs == id && stat((folder + "/ns/pid").c_str(), &space) == 0 &&
         header.pid_namespace == space.st_ino;
}

namespace {

bool is_here(uint32_t pid, uint64_t start_time) {
  return process_start_time("/proc/" + std::to_string(pid)) == start_time;
}

}  // namespace

std::optional<ProcessStat> process_stat(const std::string& folder) {
  constexpr uint64_t kMostBytes = 1 << 16;
  const std::string text = read_regular(folder + "/stat", kMostBytes).value_or("");
  const size_t begin = text.find('('), end = text.rfind(')');  // a name may have brackets
  if (begin == std::string::npos || end == std::string::npos) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(begin + 1, end - begin - 1);
  std::istringstream fields(text.substr(end + 1));
  fields >> stat.state >> stat.parent;
  std::string skipped;
  int field = 5;  // as proc_pid_stat(5) numbers them
  constexpr std::pair<int, uint64_t ProcessStat::*> kWanted[] = {
      {11, &ProcessStat::faults_of_children}, {20, &ProcessStat::threads},
      {22, &ProcessStat::start_time},         {24, &ProcessStat::rss_bytes},
      {39, &ProcessStat::processor},          {48, &ProcessStat::arguments}};
  for (const auto& [number, wanted] : kWanted) {
    for (; field < number; ++field) fields >> skipped;
    ++field;
    fields >> stat.*wanted;
  }
  stat.rss_bytes *= static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return fields ? std::optional(stat) : std::nullopt;
}

uint64_t process_start_time(const std::string& folder) {
  const auto stat = process_stat(folder);
  return !stat || stat->has_ended() ? 0 : stat->start_time;
}

std::map<std::string, std::string> fields_of(const std::string& file) {
  std::map<std::string, std::string> fields;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    fields[line.substr(0, colon)] = value == std::string::npos ? "" : line.substr(value);
  }
  return fields;
}

uint32_t pid_inside(const std::string& folder) {
  const std::string ids = fields_of(folder + "/status")["NSpid"];  // none before Linux 4.1
  const std::string& text = ids.empty() ? folder : ids;
  return static_cast<uint32_t>(strtoul(text.c_str() + text.find_last_of("/\t ") + 1, nullptr, 10));
}

std::string folder_of_process(const gpupeak_file_header& header) {
  const auto is_it = [&header](const std::string& folder) {
    return process_start_time(folder) == header.process_start_time &&
           pid_inside(folder) == header.pid && is_of_this_boot(header, folder);
  };
  const std::string here = "/proc/" + std::to_string(header.pid);
  if (is_it(here)) return here;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    if (is_it(at->path())) return at->path();
  }
  return "";
}

bool may_be_running(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  if (is_of_this_boot(header)) return is_here(header.pid, header.process_start_time);
  return counters.ended == 0;
}

bool may_be_running(const gpupeak_file_header& beside, uint32_t pid, uint64_t start_time) {
  return !is_of_this_boot(beside) || is_here(pid, start_time);
}

std::optional<uint64_t> resident_bytes(const gpupeak_file_header& beside, uint32_t pid,
                                       uint64_t start_time) {
  return is_of_this_boot(beside) ? resident_bytes(pid, start_time) : std::nullopt;
}

std::optional<uint64_t> resident_bytes(uint32_t pid, uint64_t start_time) {
  const auto stat = process_stat(fmt::format("/proc/{}", pid));
  if (!stat || stat->has_ended() || stat->start_time != start_time) return std::nullopt;
  return stat->rss_bytes;
}

LogState state_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  if (counters.ended != 0 || counters.exit_kind != GPUPEAK_EXIT_UNKNOWN) return LogState::kEnded;
  if (!is_of_this_boot(header)) return LogState::kElsewhere;
  return is_here(header.pid, header.process_start_time) ? LogState::kRunning : LogState::kKilled;
}

std::vector<int32_t> counted_devices(const gpupeak_counters_page& counters) {
  std::vector<int32_t> devices;
  for (int32_t device = 0; device < static_cast<int32_t>(GPUPEAK_LOG_MAX_DEVICES); ++device) {
    if (counters.device[device].alloc_count > 0) devices.push_back(device);
  }
  return devices;
}

Coverage coverage_of(const gpupeak_file_header& header, const gpupeak_counters_page& counters) {
  const uint32_t mode = header.host_mode;
  // Older logs of forked children have this flag, too.
  const bool from_start = (header.flags & GPUPEAK_FLAG_LATE_START) == 0;
  const bool attached = is_of_attached(header);
  const bool own_malloc = (counters.quality & GPUPEAK_Q_FOREIGN_MALLOC) != 0;
  Coverage coverage;
  constexpr uint64_t kWentOver =
      GPUPEAK_Q_LOG_MAX | GPUPEAK_Q_HEAP_SAMPLED | GPUPEAK_Q_OTHERS_SAMPLED;
  coverage.sampled = mode == GPUPEAK_HOST_SAMPLED || (counters.quality & kWentOver) != 0;
  coverage.mappings = from_start && !attached && mode != GPUPEAK_HOST_OFF;
  coverage.heap_counters = coverage.mappings && !own_malloc;
  coverage.heap_events =
      from_start && !own_malloc &&
      (mode == GPUPEAK_HOST_FULL || mode == GPUPEAK_HOST_SAMPLED || mode == GPUPEAK_HOST_AUTO);
  coverage.windows =
      from_start && !own_malloc && mode == GPUPEAK_HOST_COUNTERS && counters.window_count > 0;
  return coverage;
}

bool covers_scope(const Coverage& coverage, std::string_view scope) {
  if (scope.starts_with("device")) return true;
  if (scope == "host/heap") return coverage.heap_events || coverage.windows;
  if (scope == "host/pinned" || scope == "host/registered" || scope == "host/vmm") return true;
  // A peak of what was recorded; a warning says so.
  if (scope == "host" && coverage.windows) return true;
  if (scope == "total" || scope == "host") return coverage.host();
  return coverage.mappings;
}

std::optional<RunLimit> run_limit(const Definitions& definitions, uint64_t ordinal) {
  std::istringstream fact(std::string(definitions.fact("limit", ordinal)));
  RunLimit limit;
  std::string holds, card;
  if (!(fact >> limit.bytes >> limit.real_bytes >> holds)) return std::nullopt;
  limit.holds = holds == "on";
  if (std::getline(fact >> std::ws, card)) limit.card = definitions.shown(card);
  return limit;
}

}  // namespace gpupeak::collector
