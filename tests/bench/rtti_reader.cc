// What a report pays for names out of a library's type information: to read it, to find it again in
// the cache, and from a module's path to the first name, without a cache and with it.
//   bench_rtti_reader LIBRARY…

#include <fcntl.h>
#include <libelf.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "collector/log/definitions.h"
#include "collector/symbols/module_symbols.h"
#include "collector/symbols/rtti_names.h"

namespace {

using gpupeak::collector::RttiTable;

template <typename Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void read(const char* path) {
  const int fd = open(path, O_RDONLY);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    perror(path);
    exit(1);
  }
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  RttiTable table;
  const double first = seconds([&] { table = gpupeak::collector::read_rtti(elf); });
  const double again = seconds([&] { table = gpupeak::collector::read_rtti(elf); });
  const auto name = [&] {
    gpupeak::collector::Module module;
    module.path = std::filesystem::absolute(path);
    const gpupeak::collector::SymbolSearch search;
    gpupeak::collector::ModuleSymbols symbols(module, search, nullptr);
    symbols.frames_at(table.functions.empty() ? 0 : table.functions.front().begin);
  };
  std::filesystem::remove_all(getenv("XDG_CACHE_HOME"));
  const double first_name = seconds(name);
  const double next_name = seconds(name);
  printf("%6.1f MB  %6zu classes  %7zu functions  read %.3f s  again %.3f s  ",
         static_cast<double>(status.st_size) / 1e6, table.classes.size(), table.functions.size(),
         first, again);
  printf("first name %.3f s  in the next report %.3f s  peak %.0f MiB  %s\n", first_name, next_name,
         peak_mib(), std::filesystem::path(path).filename().c_str());
  elf_end(elf);
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  char folder[] = "/tmp/bench_rtti.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  setenv("XDG_CACHE_HOME", folder, 1);
  elf_version(EV_CURRENT);
  for (int i = 1; i < argc; ++i) read(argv[i]);
  std::filesystem::remove_all(folder);
  return 0;
}
