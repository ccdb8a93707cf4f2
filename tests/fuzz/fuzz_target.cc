// libFuzzer's entry. The input is a log, and GPUPEAK_FUZZ_WRITER names the writer that reads it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <streambuf>
#include <string>

#include "collector/text/error.h"
#include "writers.h"

namespace {

using gpupeak::testing::Writer;

/// Throws the output away.
class Nothing : public std::streambuf {
  int overflow(int c) override { return c; }
  std::streamsize xsputn(const char*, std::streamsize n) override { return n; }
};

const Writer& chosen() {
  const char* name = getenv("GPUPEAK_FUZZ_WRITER");
  for (const Writer& writer : gpupeak::testing::writers()) {
    if (name != nullptr && writer.name == name) return writer;
  }
  fprintf(stderr, "GPUPEAK_FUZZ_WRITER names no writer; gpupeak_make_corpus prints them\n");
  _exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Writer& writer = chosen();
  static const int fd = memfd_create("log", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) abort();
  Nothing nothing;
  std::ostream out(&nothing);
  try {
    writer.write(path, {}, out);
  } catch (const gpupeak::collector::LogError&) {
  } catch (const gpupeak::collector::UsageError&) {
  }
  return 0;
}
