// names_table_check LIBRARY RULES: each name that a rule gives to a function of the library's C
// API, against the table that the library itself hands out: `entry()->get(version)`, as ONNX
// Runtime's OrtGetApiBase()->GetApi(…). Fails for one wrong name, and if any is missing that the
// table has.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <libelf.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "collector/rules/rule_book.h"
#include "collector/symbols/name_rules.h"

using namespace gpupeak::collector;

namespace {

/// The two words that an entry function returns.
struct Base {
  const void* const* (*get)(uint32_t version);
  const char* (*version_text)();
};

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}
  uint64_t file_address(const void* address) const {
    Dl_info info;
    return dladdr(address, &info) != 0
               ? reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase)
               : 0;
  }
  void* handle;
};

/// 0: right. Names that are given to another function than the table's, or not at all.
int compare_with_table(const Library& library, Elf* elf, const TableRule& rule) {
  const auto entry = reinterpret_cast<const Base* (*)()>(dlsym(library.handle, rule.entry.c_str()));
  if (entry == nullptr) {
    fmt::print(stderr, "no {} in the library\n", rule.entry);
    return 1;
  }
  const Base* base = entry();
  const Version version = parse_version(base->version_text());
  const void* const* table = base->get(version.size() > 1 ? version[1] : 1);
  uint32_t length = 0;
  for (const TableRule::Function& function : rule.functions) {
    const bool has_it = function.since.empty() || compare(version, function.since) >= 0;
    if (has_it) length = std::max(length, function.slot + 1);
  }
  std::map<std::string, uint64_t> named;
  for (const ApiFunction& function :
       api_functions(elf, rule, library.file_address(reinterpret_cast<const void*>(entry)))) {
    named[function.name] = function.begin;
  }
  int wrong = 0, missing = 0, expected = 0;
  for (const TableRule::Function& function : rule.functions) {
    if (!function.since.empty() && compare(version, function.since) < 0) {
      wrong += named.contains(rule.name + "::" + function.name) ? 1 : 0;
      continue;
    }
    const auto slots = std::count(table, table + length, table[function.slot]);
    const auto known = named.find(rule.name + "::" + function.name);
    ++expected;
    missing += slots == 1 && known == named.end() ? 1 : 0;
    if (known != named.end() && known->second != library.file_address(table[function.slot])) {
      fmt::print(stderr, "{} is not at {:#x}\n", known->first, known->second);
      ++wrong;
    }
  }
  fmt::print("{} {}: {} of {} named, {} wrong, {} missing\n", rule.entry, base->version_text(),
             named.size(), expected, wrong, missing);
  return wrong + missing;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: names_table_check LIBRARY RULES\n");
    return 2;
  }
  elf_version(EV_CURRENT);
  const Library library(argv[1]);
  Elf* elf = elf_begin(open(argv[1], O_RDONLY | O_CLOEXEC), ELF_C_READ_MMAP, nullptr);
  std::ostringstream text;
  text << std::ifstream(argv[2]).rdbuf();
  if (library.handle == nullptr || elf == nullptr || text.str().empty()) {
    fmt::print(stderr, "cannot be read: {}\n", library.handle == nullptr ? dlerror() : argv[2]);
    return 2;
  }
  const RuleSet rules = parse_rules(text.str(), argv[2]);
  int failures = rules.names.tables.empty() ? 1 : 0;
  for (const TableRule& rule : rules.names.tables)
    failures += compare_with_table(library, elf, rule);
  return failures == 0 ? 0 : 1;
}
