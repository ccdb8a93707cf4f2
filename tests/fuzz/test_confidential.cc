// No name of a log is in any output that was made with --confidential.
#include <zlib.h>

#include <sstream>
#include <stdexcept>

#include "catch.h"
#include "collector/analyze/analyze.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"
#include "log_builder.h"
#include "sample_logs.h"
#include "writers.h"

using namespace gpupeak::collector;
using namespace gpupeak::testing;

namespace {

/// The output as its reader sees it: unpacked.
std::string unpacked(const std::string& output) {
  constexpr int kGzip = 16 + MAX_WBITS;
  if (!output.starts_with("\x1f\x8b")) return output;
  std::string text(1 << 20, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(output.data()));
  stream.avail_in = static_cast<uInt>(output.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const bool whole =
      inflateInit2(&stream, kGzip) == Z_OK && inflate(&stream, Z_FINISH) == Z_STREAM_END;
  text.resize(stream.total_out);
  inflateEnd(&stream);
  if (!whole) throw std::runtime_error("the output cannot be unpacked");
  return text;
}

}  // namespace

TEST_CASE("confidential: no writer shows a text of the log, and figures stay", "[fuzz]") {
  const std::string secret = "Sesame";
  constexpr const char* kIdDigits = "30313233";  // the GPU's UUID and the build-id begin with this
  const TemporaryFile file;
  file.write(secret_log(secret).bytes);
  const Summary open = analyze(file.path());
  Options confidential;
  confidential.reading.sanitizer = Sanitizer("key");
  for (const Writer& writer : writers()) {
    if (writer.name == "bundle" || writer.name == "summary_json")
      continue;  // these write the log itself, or read no log
    std::ostringstream out;
    writer.write(file.path(), confidential.reading, out);
    const std::string text = unpacked(out.str());
    INFO(writer.name << "\n" << text);
    CHECK(text.find(secret) == std::string::npos);
    CHECK(text.find(kIdDigits) == std::string::npos);
    CHECK(text.find(file.path()) == std::string::npos);
  }
  const Summary hidden = analyze(file.path(), confidential);
  CHECK(hidden.metrics == open.metrics);
  REQUIRE(hidden.peaks.size() == open.peaks.size());
  for (size_t i = 0; i < open.peaks.size(); ++i) {
    REQUIRE(hidden.peaks[i].holders.size() == open.peaks[i].holders.size());
    for (size_t row = 0; row < open.peaks[i].holders.size(); ++row) {
      CHECK(hidden.peaks[i].holders[row].bytes == open.peaks[i].holders[row].bytes);
      CHECK(hidden.peaks[i].holders[row].api == open.peaks[i].holders[row].api);  // public names
    }
  }
  const Sanitizer& sanitizer = confidential.reading.sanitizer;
  CHECK(sanitizer.text("secret") == sanitizer.text("secret"));
  CHECK(sanitizer.text("secret") != sanitizer.text("secrets"));
  const std::string under_key = sanitizer.text("secret");
  CHECK(Sanitizer("another").text("secret") != under_key);
  CHECK(sanitizer.text("cuMemAlloc_v2") == "cuMemAlloc_v2");
  CHECK(sanitizer.text("cutlass_gemm") != "cutlass_gemm");
  CHECK(sanitizer.text("malloc") == "malloc");
  CHECK(sanitizer.text("std::vector<Secret>::push_back()").starts_with("x"));
}
