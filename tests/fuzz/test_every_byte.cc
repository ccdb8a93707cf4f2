// Writers, by turns, on logs with each byte damaged, on logs cut at each byte, and on a log whose
// names are attacks on the programs that show them.
#include <algorithm>
#include <set>
#include <sstream>

#include "catch.h"
#include "collector/log/event.h"
#include "collector/log/event_stream.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "log_builder.h"
#include "sample_logs.h"
#include "writers.h"

using namespace gpupeak::testing;
using gpupeak::collector::LogError;
using gpupeak::collector::UsageError;

namespace {

/// The writer's output; empty if the log was refused with a clear error.
std::string run(const Writer& writer, const std::string& path) {
  std::ostringstream out;
  try {
    writer.write(path, {}, out);
  } catch (const LogError&) {
    return "";
  } catch (const UsageError&) {
    return "";
  }
  return out.str();
}

/// The places to damage. Runs of zeros are padding: only the first and the last zero are damaged.
std::vector<size_t> places(const std::vector<uint8_t>& bytes) {
  std::vector<size_t> found;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool near = bytes[i] != 0 || (i > 0 && bytes[i - 1] != 0) ||
                      (i + 1 < bytes.size() && bytes[i + 1] != 0);
    if (near) found.push_back(i);
  }
  return found;
}

/// Whether the writer is tried on this sample. Unpacking is the same for all writers, one writer
/// reads JSON, and one simulates a pool.
bool reads(const Writer& writer, const SampleLog& log) {
  if (log.name == "summary") return writer.name == "summary_json";
  if (log.name == "parts") return writer.name == "part" || writer.name == "text";
  if (log.name == "torch") return writer.name == "fit";
  if (log.name == "bundle") return writer.name == "reader" || writer.name == "text";
  return writer.name != "summary_json";
}

/// Writers share the reader and the replay, through which all bytes go. So each place is tried on
/// some writers, by turns: every writer still sees every kind of damage to each kind of record. The
/// number of turns has no common factor with the number of kinds of flips: else a writer would see
/// only one kind.
bool has_turn(size_t writer, size_t place) {
  constexpr size_t kTurns = 7;
  return writer % kTurns == place % kTurns;
}

template <class Damage>
void damage_everywhere(const SampleLog& log, Damage damage) {
  const TemporaryFile file;
  size_t turn = 0;
  for (const size_t place : places(log.bytes)) {
    std::vector<uint8_t> bytes = log.bytes;
    damage(bytes, place, turn++);
    file.write(bytes);
    for (size_t i = 0; i < writers().size(); ++i) {
      const Writer& writer = writers()[i];
      if (!reads(writer, log) || (log.name == "whole" && !has_turn(i, turn))) continue;
      INFO(log.name << ", byte " << place << ", " << writer.name);
      REQUIRE_NOTHROW(run(writer, file.path()));
    }
  }
}

bool is_for_terminals(const std::string& writer) {
  return writer != "bundle" && !writer.starts_with("export.");
}

}  // namespace

TEST_CASE("every_byte: the log that is damaged has one of each record", "[fuzz]") {
  const TemporaryFile file;
  file.write(sample_logs().front().bytes);
  const gpupeak::collector::LogReader log(file.path());
  std::set<uint8_t> tags;
  gpupeak::collector::EventStream(log).run([&](const auto& events, const auto& /*notes*/) {
    for (const gpupeak::collector::Event& event : events) tags.insert(event.tag);
  });
#define HAS(TAG, Struct, name) CHECK(tags.count(GPUPEAK_REC_##TAG) == 1);
  GPUPEAK_EXTENDED_RECORDS(HAS)
#undef HAS
}

TEST_CASE("every_byte: a log cut anywhere is an error or a shorter log to writers", "[fuzz]") {
  for (const SampleLog& log : sample_logs()) {
    if (log.name == "hostile") continue;
    damage_everywhere(
        log, [](std::vector<uint8_t>& bytes, size_t place, size_t) { bytes.resize(place); });
  }
}

TEST_CASE("every_byte: a byte that is wrong crashes no writer", "[fuzz]") {
  constexpr uint8_t kFlips[] = {0x01, 0x80, 0xff, 0x40};
  for (const SampleLog& log : sample_logs()) {
    if (log.name == "hostile") continue;
    damage_everywhere(log, [&](std::vector<uint8_t>& bytes, size_t place, size_t turn) {
      bytes[place] ^= kFlips[turn % std::size(kFlips)];
    });
  }
}

TEST_CASE("every_byte: no name reaches a terminal raw", "[fuzz]") {
  const TemporaryFile file;
  for (const SampleLog& log : sample_logs()) {
    if (log.name != "hostile") continue;
    file.write(log.bytes);
    for (const Writer& writer : writers()) {
      INFO(writer.name);
      const std::string text = run(writer, file.path());
      if (writer.name == "reader" || writer.name == "part" || writer.name == "summary_json")
        continue;
      if (!is_for_terminals(writer.name)) continue;
      CHECK_FALSE(text.empty());
      CHECK(text.find("\x1b]") == std::string::npos);
      CHECK(text.find('\a') == std::string::npos);
      CHECK(text.find("\xff") == std::string::npos);
      CHECK(text.find("\xe2\x80\xae") == std::string::npos);
    }
  }
}
