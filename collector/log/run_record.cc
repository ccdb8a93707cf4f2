#include "collector/log/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "collector/files/regular_file.h"
#include "collector/log/log_head.h"
#include "collector/log/log_parts.h"
#include "collector/log/log_reader.h"

/// What is not known is null.
template <typename T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& to, const std::optional<T>& value) {
    to = value ? json(*value) : json();
  }
  static void from_json(const json& from, std::optional<T>& value) {
    value.reset();
    if (!from.is_null()) from.get_to(*(value = T{}));
  }
};

namespace gpupeak::collector {

// The record's keys are the names of its fields.
#define GPUPEAK_KEYS NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT
GPUPEAK_KEYS(RunRecord::Log, path, id, pid)
GPUPEAK_KEYS(RunRecord::OfDevice, uuid, name, index, bytes)
GPUPEAK_KEYS(RunRecord::Unrecorded, pid, name, why, used_gpu, went_on, rss_bytes, devices)
GPUPEAK_KEYS(RunRecord::LeftRunning, pid, start_time, name, why)
GPUPEAK_KEYS(RunRecord::MemoryKill, likely, limit_bytes, cgroup, kills, started_process)
GPUPEAK_KEYS(RunRecord::Resident, pid, rss_bytes, files_bytes, written_bytes, shared_bytes,
             driver_bytes, stacks_bytes, malloc_bytes, anonymous_bytes, static_data_bytes,
             log_bytes, shared_anonymous_bytes, own_bytes, others_brk_bytes, heap_bytes)
GPUPEAK_KEYS(RunRecord::Small, count, largest, rss_bytes)
GPUPEAK_KEYS(RunRecord::Together, rss_bytes, pss_bytes, own_bytes, processes)
GPUPEAK_KEYS(RunRecord, descendants_watched, logs, unrecorded, small, unseen_rss_bytes,
             left_running, memory_kill, resident, together)
#undef GPUPEAK_KEYS

namespace {

using Json = nlohmann::json;

constexpr std::string_view kRunSchema = "gpupeak.run/1";
constexpr uint64_t kFirstPage = GPUPEAK_LOG_PAGE;
constexpr uint64_t kTextInPage = GPUPEAK_RUN_RECORD_OFFSET + sizeof(gpupeak_run_record);
constexpr uint64_t kMostRecordBytes = 16 << 20;  ///< a hundred thousand processes

/// Removes what is not known, empty or false: a reader takes what is missing for that.
void leave_out_empty(Json& json) {
  if (!json.is_structured()) return;
  for (auto part = json.begin(); part != json.end();) {
    leave_out_empty(*part);
    const bool says_nothing = part->empty() || *part == "" || *part == false;
    part = json.is_object() && says_nothing ? json.erase(part) : std::next(part);
  }
}

std::string text_of(const RunRecord& record) {
  Json json = record;
  leave_out_empty(json);
  json["schema"] = kRunSchema;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<RunRecord> record_of(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.value("schema", "") != kRunSchema) return std::nullopt;
    return json.get<RunRecord>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
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
  const LogFront front = read_front(log, kFirstPage);
  const std::vector<uint8_t>& page = front.bytes;
  gpupeak_file_header header;
  gpupeak_run_record where;
  if (page.size() < kFirstPage) return std::nullopt;
  memcpy(&header, page.data(), sizeof header);
  memcpy(&where, page.data() + GPUPEAK_RUN_RECORD_OFFSET, sizeof where);
  if (header.magic != GPUPEAK_LOG_MAGIC || header.version != GPUPEAK_LOG_VERSION ||
      where.bytes == 0 || where.bytes > kMostRecordBytes || where.offset < kTextInPage)
    return std::nullopt;
  if (where.offset >= kFirstPage) return record_of(text_in_chunk(log, front.is_packed, where));
  if (where.bytes > kFirstPage - where.offset) return std::nullopt;
  return record_of({reinterpret_cast<const char*>(page.data()) + where.offset, where.bytes});
}

bool write_run_record(const std::string& log, const RunRecord& record) {
  const LogTail to(log, O_RDWR);
  const std::string text = text_of(record);
  if (!to.is_log() || text.size() > kMostRecordBytes) return false;
  gpupeak_run_record where{kTextInPage, text.size()};
  if (text.size() > kFirstPage - kTextInPage) {
    const uint64_t begin = to.append(GPUPEAK_CHUNK_RUN, text);
    if (begin == 0) return false;
    where.offset = begin + sizeof(gpupeak_chunk_header);
  } else if (!to.write(text.data(), text.size(), where.offset)) {
    return false;
  }
  // Written last: the record is whole or not there.
  return to.write(&where, sizeof where, GPUPEAK_RUN_RECORD_OFFSET);
}

}  // namespace gpupeak::collector
