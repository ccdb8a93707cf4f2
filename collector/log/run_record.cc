#include "collector/log/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "collector/files/regular_file.h"
#include "collector/log/log_head.h"
#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"
#include "collector/log/mapped_file.h"
#include "collector/log/packed_log.h"
#include "collector/text/error.h"

namespace gpupeak::collector {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr std::string_view kRunSchema = "gpupeak.run/1";
constexpr uint64_t kFirstPage = GPUPEAK_LOG_PAGE;
constexpr uint64_t kTextInPage = GPUPEAK_RUN_RECORD_OFFSET + sizeof(gpupeak_run_record);
constexpr uint64_t kMostBytes = 16 << 20;  ///< a hundred thousand processes

RecordJson device_json(const RunRecord::OfDevice& device) {
  return {{"uuid", device.uuid},
          {"name", device.name},
          {"index", device.index},
          {"bytes", device.bytes}};
}

RecordJson unrecorded_json(const RunRecord::Unrecorded& process) {
  RecordJson json{{"pid", process.pid}, {"name", process.name}};
  if (!process.why.empty()) json["why"] = process.why;
  if (process.used_gpu) json["used_gpu"] = true;
  if (process.went_on) json["went_on"] = true;
  if (process.rss_bytes) json["rss_bytes"] = *process.rss_bytes;
  for (const RunRecord::OfDevice& device : process.devices)
    json["devices"].push_back(device_json(device));
  return json;
}

RecordJson left_running_json(const RunRecord::LeftRunning& left) {
  RecordJson json{{"pid", left.pid}, {"start_time", left.start_time}, {"name", left.name}};
  if (!left.why.empty()) json["why"] = left.why;
  return json;
}

/// Calls `visit` with the name of each size of a process's resident memory, and with the size.
template <class Resident, class Visit>
void for_each_part(Resident& resident, Visit visit) {
  visit("rss_bytes", resident.rss_bytes);
  visit("files_bytes", resident.files_bytes);
  visit("written_bytes", resident.written_bytes);
  visit("shared_bytes", resident.shared_bytes);
  visit("driver_bytes", resident.driver_bytes);
  visit("stacks_bytes", resident.stacks_bytes);
  visit("malloc_bytes", resident.malloc_bytes);
  visit("anonymous_bytes", resident.anonymous_bytes);
  visit("static_data_bytes", resident.static_data_bytes);
  visit("log_bytes", resident.log_bytes);
  visit("shared_anonymous_bytes", resident.shared_anonymous_bytes);
  visit("own_bytes", resident.own_bytes);
  visit("others_brk_bytes", resident.others_brk_bytes);
}

RecordJson resident_json(const RunRecord::Resident& resident) {
  RecordJson json{{"pid", resident.pid}};
  for_each_part(resident, [&](const char* name, uint64_t bytes) { json[name] = bytes; });
  if (resident.heap_bytes) json["heap_bytes"] = *resident.heap_bytes;
  return json;
}

RunRecord::Resident resident_of(const RecordJson& json) {
  RunRecord::Resident resident;
  resident.pid = json.value("pid", 0u);
  for_each_part(resident,
                [&](const char* name, uint64_t& bytes) { bytes = json.value(name, uint64_t{0}); });
  if (json.contains("heap_bytes")) resident.heap_bytes = json["heap_bytes"].get<uint64_t>();
  return resident;
}

std::string text_of(const RunRecord& record) {
  RecordJson json{{"schema", kRunSchema}, {"descendants_watched", record.descendants_watched}};
  json["logs"] = RecordJson::array();
  for (const RunRecord::Log& log : record.logs)
    json["logs"].push_back({{"path", log.path}, {"id", log.id}, {"pid", log.pid}});
  for (const RunRecord::Unrecorded& process : record.unrecorded)
    json["unrecorded"].push_back(unrecorded_json(process));
  if (record.small.count > 0)
    json["small"] = {{"count", record.small.count},
                     {"largest", record.small.largest},
                     {"rss_bytes", record.small.rss_bytes}};
  if (record.unseen_rss_bytes != 0) json["unseen_rss_bytes"] = record.unseen_rss_bytes;
  for (const RunRecord::LeftRunning& left : record.left_running)
    json["left_running"].push_back(left_running_json(left));
  if (record.memory_kill) {
    const RunRecord::MemoryKill& kill = *record.memory_kill;
    json["memory_kill"] = {{"likely", kill.likely},
                           {"limit_bytes", kill.limit_bytes},
                           {"cgroup", kill.cgroup},
                           {"kills", kill.kills},
                           {"started_process", kill.started_process}};
  }
  for (const RunRecord::Resident& resident : record.resident)
    json["resident"].push_back(resident_json(resident));
  if (record.together) {
    json["together"] = {{"rss_bytes", record.together->rss_bytes},
                        {"pss_bytes", record.together->pss_bytes},
                        {"own_bytes", record.together->own_bytes},
                        {"processes", record.together->processes}};
  }
  return json.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
}

RunRecord::Unrecorded unrecorded_of(const RecordJson& json) {
  RunRecord::Unrecorded process;
  process.pid = json.value("pid", 0u);
  process.name = json.value("name", "");
  process.why = json.value("why", "");
  process.used_gpu = json.value("used_gpu", false);
  process.went_on = json.value("went_on", false);
  if (json.contains("rss_bytes")) process.rss_bytes = json["rss_bytes"].get<uint64_t>();
  for (const RecordJson& device : json.value("devices", RecordJson::array())) {
    process.devices.push_back({device.value("uuid", ""), device.value("name", ""),
                               device.value("index", 0u), device.value("bytes", uint64_t{0})});
  }
  return process;
}

std::optional<RunRecord> record_of(std::string_view text) {
  try {
    const RecordJson json = RecordJson::parse(text);
    if (json.value("schema", "") != kRunSchema) return std::nullopt;
    RunRecord record;
    record.descendants_watched = json.value("descendants_watched", false);
    for (const RecordJson& log : json.value("logs", RecordJson::array()))
      record.logs.push_back(
          {log.value("path", ""), log.value("id", uint64_t{0}), log.value("pid", 0u)});
    for (const RecordJson& process : json.value("unrecorded", RecordJson::array()))
      record.unrecorded.push_back(unrecorded_of(process));
    record.unseen_rss_bytes = json.value("unseen_rss_bytes", uint64_t{0});
    if (json.contains("small")) {
      const RecordJson& small = json["small"];
      record.small = {small.value("count", uint64_t{0}), small.value("largest", ""),
                      small.value("rss_bytes", uint64_t{0})};
    }
    for (const RecordJson& left : json.value("left_running", RecordJson::array()))
      record.left_running.push_back({left.value("pid", 0u), left.value("start_time", uint64_t{0}),
                                     left.value("name", ""), left.value("why", "")});
    if (json.contains("memory_kill")) {
      const RecordJson& kill = json["memory_kill"];
      record.memory_kill = {kill.value("likely", false), kill.value("limit_bytes", uint64_t{0}),
                            kill.value("cgroup", ""), kill.value("kills", uint64_t{0}),
                            kill.value("started_process", false)};
    }
    for (const RecordJson& resident : json.value("resident", RecordJson::array()))
      record.resident.push_back(resident_of(resident));
    if (json.contains("together")) {
      const RecordJson& together = json["together"];
      record.together = {together.value("rss_bytes", uint64_t{0}),
                         together.value("pss_bytes", uint64_t{0}),
                         together.value("own_bytes", uint64_t{0}), together.value("processes", 0u)};
    }
    return record;
  } catch (const RecordJson::exception&) {
    return std::nullopt;
  }
}

/// The log's first page. `packed` tells whether the log is packed.
std::vector<uint8_t> first_page(const std::string& log, bool& packed) {
  const MappedFile file(log);
  const std::span<const uint8_t> bytes(file.data(), file.bytes());
  packed = is_packed(bytes);
  if (packed) return unpack_front(bytes, log, kFirstPage);
  const auto front = bytes.first(std::min<uint64_t>(bytes.size(), kFirstPage));
  return {front.begin(), front.end()};
}

/// The text of a record that lies in a chunk; empty: it cannot be read.
std::string text_in_chunk(const std::string& log, bool packed, const gpupeak_run_record& where) {
  std::string text(where.bytes, '\0');
  if (packed) {
    const LogReader reader(log);
    if (where.offset > reader.file_bytes() || reader.file_bytes() - where.offset < where.bytes)
      return "";
    memcpy(text.data(), reader.data() + where.offset, where.bytes);
    return text;
  }
  const Descriptor file = open_regular(log);
  const ssize_t got =
      file ? pread(file.get(), text.data(), text.size(), static_cast<off_t>(where.offset)) : -1;
  return got == static_cast<ssize_t>(text.size()) ? text : "";
}

}  // namespace

std::optional<RunRecord> read_run_record(const std::string& log) {
  bool packed = false;
  const std::vector<uint8_t> page = first_page(log, packed);
  gpupeak_file_header header;
  gpupeak_run_record where;
  if (page.size() < kFirstPage) return std::nullopt;
  memcpy(&header, page.data(), sizeof header);
  memcpy(&where, page.data() + GPUPEAK_RUN_RECORD_OFFSET, sizeof where);
  if (header.magic != GPUPEAK_LOG_MAGIC || header.version != GPUPEAK_LOG_VERSION ||
      where.bytes == 0 || where.bytes > kMostBytes || where.offset < kTextInPage)
    return std::nullopt;
  if (where.offset >= kFirstPage) return record_of(text_in_chunk(log, packed, where));
  if (where.bytes > kFirstPage - where.offset) return std::nullopt;
  return record_of({reinterpret_cast<const char*>(page.data()) + where.offset, where.bytes});
}

bool write_run_record(const std::string& log, const RunRecord& record) {
  const LogTail to(log, O_RDWR);
  const std::string text = text_of(record);
  if (!to.is_log() || text.size() > kMostBytes) return false;
  gpupeak_run_record where{kTextInPage, text.size()};
  if (text.size() > kFirstPage - kTextInPage) {
    const uint64_t begin = to.bytes();
    const uint64_t bytes =
        (sizeof(gpupeak_chunk_header) + text.size() + kFirstPage - 1) / kFirstPage * kFirstPage;
    const gpupeak_chunk_header chunk = to.chunk(GPUPEAK_CHUNK_RUN, begin, bytes);
    where.offset = begin + sizeof chunk;
    if (!to.grow(bytes) || !to.write(text.data(), text.size(), where.offset) ||
        !to.write(&chunk, sizeof chunk, begin) || !to.set_end(begin + bytes)) {
      to.set_end(begin);
      return false;
    }
  } else if (!to.write(text.data(), text.size(), where.offset)) {
    return false;
  }
  // Written last: the record is whole or not there.
  return to.write(&where, sizeof where, GPUPEAK_RUN_RECORD_OFFSET);
}

}  // namespace gpupeak::collector
