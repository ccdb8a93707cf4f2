// Writes the sample logs into a folder, as the fuzzers' first inputs, and prints the names of the
// writers.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "sample_logs.h"
#include "writers.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  for (const gpupeak::testing::SampleLog& log : gpupeak::testing::sample_logs()) {
    std::ofstream out(std::filesystem::path(argv[1]) / log.name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(log.bytes.data()),
              static_cast<std::streamsize>(log.bytes.size()));
    if (!out.flush()) return 1;
  }
  for (const gpupeak::testing::Writer& writer : gpupeak::testing::writers())
    puts(writer.name.c_str());
}
