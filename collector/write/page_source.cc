#include "collector/write/page_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "collector/files/source_file.h"
#include "collector/text/file_name.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

constexpr int kLinesAround = 4;
constexpr size_t kMostFiles = 100, kMostText = 256 << 10;

/// Whether the log was made here: on another machine or in another container this name may be of
/// another file.
bool is_of_this_machine(const Profile& profile) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  struct stat space {};
  const uint64_t theirs = profile.log().header().pid_namespace;
  const bool same_container =
      theirs == 0 || (stat("/proc/self/ns/pid", &space) == 0 && space.st_ino == theirs);
  return same_container && profile.definitions().fact("host") == name.data();
}

}  // namespace

PageSource::PageSource(Profile& profile, const std::vector<ScopeId>& scopes) : profile_(profile) {
  const bool elsewhere = profile.symbolizer().root().empty() && !is_of_this_machine(profile);
  if (elsewhere || profile.definitions().sanitizer().is_confidential()) return;
  for (const ScopeId scope : scopes) add(profile.at_peak(scope));
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (uint32_t id = 0; id < files_.size(); ++id) {
    uint64_t most = 0;
    for (const auto& [line, bytes] : files_[id].held) most = std::max(most, bytes);
    order.emplace_back(most, id);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (order.size() > kMostFiles) order.resize(kMostFiles);
  size_t text_left = kMostText;
  for (const auto& [bytes, id] : order) read(files_[id], text_left);
}

void PageSource::add(const std::vector<Contribution>& held) {
  for (const Contribution& part : held) {
    for (const Call& call : profile_.calls(profile_.replay().sites().info(part.group).stack))
      note(call);
  }
  const std::vector<uint64_t> bytes = bytes_of_places(held);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (places_[i].line == 0) continue;
    uint64_t& most = files_[places_[i].file].held[places_[i].line];
    most = std::max(most, bytes[i]);
  }
}

void PageSource::note(const Call& call) {
  const Frame& frame = *call.frame;
  if (call.place == 0 || frame.file.empty()) return;
  if (call.place >= places_.size()) places_.resize(call.place + 1);
  const auto [entry, added] =
      file_ids_.try_emplace(frame.file, static_cast<uint32_t>(files_.size()));
  if (added) files_.emplace_back().path = frame.file;
  File& file = files_[entry->second];
  file.is_python |= frame.is_python;
  if (!frame.is_python) file.modules.insert(frame.module);
  places_[call.place] = {entry->second, frame.line};
}

const PageSource::Place* PageSource::place_of(const Call& call) const {
  if (call.place == 0 || call.place >= places_.size()) return nullptr;
  return places_[call.place].line > 0 ? &places_[call.place] : nullptr;
}

/// A stack counts once for a line, however many of its frames are on that line.
std::vector<uint64_t> PageSource::bytes_of_places(const std::vector<Contribution>& held) const {
  std::vector<uint64_t> bytes(places_.size());
  std::vector<size_t> last(places_.size());
  for (size_t i = 0; i < held.size(); ++i) {
    const uint32_t stack = profile_.replay().sites().info(held[i].group).stack;
    for (const Call& call : profile_.calls(stack)) {
      if (place_of(call) == nullptr || std::exchange(last[call.place], i + 1) == i + 1) continue;
      bytes[call.place] += held[i].bytes;
    }
  }
  return bytes;
}

/// The earliest time at which modules of this name were written; none: one of them is not here as
/// it ran.
std::optional<int64_t> PageSource::written_ns(const std::string& module) const {
  std::optional<int64_t> first;
  const std::vector<Module>& modules = profile_.definitions().modules();
  for (uint32_t id = 1; id < modules.size(); ++id) {
    if (escape(file_name(modules[id].path)) != module) continue;
    const std::optional<int64_t> ns = profile_.symbolizer().written_ns(id);
    if (!ns) return std::nullopt;
    first = std::min(first.value_or(*ns), *ns);
  }
  return first;
}

/// The time until which the file had the lines of which the program was made; none: not known. A
/// log that does not begin with its process may begin after Python has read the file.
std::optional<int64_t> PageSource::known_until_ns(const File& file) const {
  const gpupeak_file_header& header = profile_.log().header();
  const bool from_start = (header.flags & (GPUPEAK_FLAG_FORKED | GPUPEAK_FLAG_ATTACHED)) == 0;
  if (file.is_python && !from_start) return std::nullopt;
  auto until = static_cast<int64_t>(header.start_realtime_ns);
  for (const std::string& module : file.modules) {
    const std::optional<int64_t> ns = written_ns(module);
    if (!ns) return std::nullopt;
    until = std::min(until, *ns);
  }
  return until;
}

/// Takes the lines around those that held most, largest first, as long as there is room for text.
void PageSource::read(File& file, size_t& text_left) const {
  if (text_left == 0) return;
  const std::optional<int64_t> until = known_until_ns(file);
  if (!until || file.path.find('\\') != std::string::npos)
    return;  // the name was escaped to be shown, so it names no file
  const SourceFile source = read_source(profile_.symbolizer().root(), file.path, *until);
  const int count = static_cast<int>(source.lines.size());
  file.changed =
      source.state == SourceFile::State::kChanged ||
      (source.state == SourceFile::State::kOriginal && file.held.rbegin()->first > count);
  if (file.changed || source.lines.empty()) return;
  std::vector<std::pair<uint64_t, int>> order;
  for (const auto& [line, bytes] : file.held) order.emplace_back(bytes, line);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (const auto& [bytes, line] : order) {
    const int end = std::min(line + kLinesAround, count);
    for (int at = std::max(line - kLinesAround, 1); at <= end; ++at) {
      const std::string& text = source.lines[static_cast<size_t>(at) - 1];
      const auto [entry, added] = file.lines.try_emplace(at, text);
      if (added) text_left -= std::min(text_left, text.size());
    }
    if (text_left == 0) return;
  }
}

std::optional<uint32_t> PageSource::file_of(const Frame& frame) const {
  const auto found = file_ids_.find(frame.file);
  if (found == file_ids_.end()) return std::nullopt;
  const File& file = files_[found->second];
  if (!file.changed && !file.lines.contains(frame.line)) return std::nullopt;
  return found->second;
}

Json PageSource::files_json(const std::function<uint32_t(const std::string&)>& string) const {
  Json all = Json::array();
  for (const File& file : files_) {
    Json json = Json::array();
    if (file.changed || !file.lines.empty())
      json.push_back(string(file.path));
    else
      json.push_back(-1);
    int last = -1;
    for (const auto& [line, text] : file.lines) {
      if (line != last + 1) json.push_back(Json::array({line}));
      json.back().push_back(string(text));
      last = line;
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json PageSource::bytes_json(const std::vector<Contribution>& held) const {
  Json all = Json::array();
  const bool any = std::any_of(files_.begin(), files_.end(),
                               [](const File& file) { return !file.lines.empty(); });
  if (!any) return all;
  const std::vector<uint64_t> bytes = bytes_of_places(held);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Place& place = places_[i];
    if (bytes[i] == 0 || !files_[place.file].lines.contains(place.line)) continue;
    all.push_back(place.file);
    all.push_back(place.line);
    all.push_back(bytes[i]);
  }
  return all;
}

}  // namespace gpupeak::collector
