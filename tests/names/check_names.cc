// names_check STRIPPED WHOLE: each name that the stripped library's type information gives, against
// the symbols of its twin that was not stripped. Prints the share of functions that have one.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_names.h"

using gpupeak::collector::LoadedImage;
using gpupeak::collector::RelocatedWord;
using gpupeak::collector::RttiNames;
using gpupeak::collector::RttiTable;

namespace {

constexpr std::string_view kNameOf = "typeinfo name for ";

struct Symbol {
  std::string name;
  uint64_t begin, bytes;
};

std::vector<Symbol> symbols_of(Elf* elf) {
  std::vector<Symbol> found;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_SYMTAB) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr && *name != 0 && symbol.st_shndx != SHN_UNDEF) {
        found.push_back({name, symbol.st_value, symbol.st_size});
      }
    }
  }
  return found;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  free(text);
  return result;
}

Elf* open_elf(const char* path) {
  const int fd = open(path, O_RDONLY);
  return fd < 0 ? nullptr : elf_begin(fd, ELF_C_READ_MMAP, nullptr);
}

/// All places of functions in vtables, as the symbols bound them: class, slot → functions. The
/// slots of each part of a vtable are counted from its own start.
class Truth {
 public:
  Truth(Elf* elf, const LoadedImage& image) : symbols_(symbols_of(elf)) {
    for (const Symbol& symbol : symbols_) {
      if (symbol.name.starts_with("_ZTV")) add_vtable(symbol, image);
    }
  }
  bool has(const std::string& name, uint32_t slot, uint64_t function) const {
    return places_.contains({name, slot, function});
  }
  uint32_t length(const std::string& name) const {
    const auto known = lengths_.find(name);
    return known == lengths_.end() ? UINT32_MAX : known->second;
  }
  std::vector<std::string> names_at(uint64_t address) const {
    std::vector<std::string> names;
    for (const Symbol& symbol : symbols_) {
      if (symbol.begin == address) names.push_back(demangled(symbol.name));
    }
    return names;
  }
  size_t function_count() const {
    std::set<uint64_t> starts;
    for (const Symbol& symbol : symbols_) {
      if (symbol.name.starts_with("_Z") && !symbol.name.starts_with("_ZT") && symbol.bytes > 0) {
        starts.insert(symbol.begin);
      }
    }
    return starts.size();
  }

 private:
  void add_vtable(const Symbol& symbol, const LoadedImage& image) {
    const std::string name = symbol.name.substr(4, symbol.name.find('.') - 4);  // ".lto_priv.0"
    bool first_part = true;
    uint32_t slot = UINT32_MAX;
    for (uint64_t at = symbol.begin + 8; at < symbol.begin + symbol.bytes; at += 8) {
      const RelocatedWord* word = image.word_at(at);
      const bool before_is_plain = image.word_at(at - 8) == nullptr;
      const bool code = word != nullptr && (word->symbol != 0 || image.is_code(word->value));
      const bool info = word != nullptr && before_is_plain && !image.is_code(word->value) &&
                        (word->symbol == 0 || slot == UINT32_MAX);
      if (info) {
        if (slot != UINT32_MAX) first_part = false;
        slot = 0;
        continue;
      }
      if (slot == UINT32_MAX) continue;
      if (code && word->symbol == 0) places_.insert({name, slot, word->value});
      if (first_part && code) lengths_[name] = std::max(lengths_[name], slot + 1);
      ++slot;
    }
  }

  std::vector<Symbol> symbols_;
  std::set<std::tuple<std::string, uint32_t, uint64_t>> places_;
  std::map<std::string, uint32_t> lengths_;
};

}  // namespace

int main(int argc, char** argv) {
  elf_version(EV_CURRENT);
  Elf* stripped = argc > 2 ? open_elf(argv[1]) : nullptr;
  Elf* whole = argc > 2 ? open_elf(argv[2]) : nullptr;
  if (stripped == nullptr || whole == nullptr) {
    fmt::print(stderr, "usage: names_check STRIPPED WHOLE\n");
    return 2;
  }
  const RttiTable table = gpupeak::collector::read_rtti(stripped);
  const LoadedImage image(whole);
  const Truth truth(whole, image);
  const RttiNames names(table, "sample.so", "", nullptr);
  size_t wrong = 0;
  size_t of_one_class = 0;
  size_t inherited = 0;
  size_t named = 0;
  for (const RttiTable::Function& function : table.functions) {
    const std::string text = names.name_of(function);
    named += text.empty() ? 0 : 1;
    const std::vector<std::string> symbols = truth.names_at(function.begin);
    bool right = !symbols.empty();
    if (function.class_count == 1 && function.owner != RttiTable::kNone) {
      ++of_one_class;
      const std::string& name = table.classes[function.owner].name;
      const std::string prefix = demangled("_ZTS" + name).substr(kNameOf.size()) + "::";
      const bool own = std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
        return symbol.find(prefix) != std::string::npos;
      });
      inherited += own ? 0 : 1;
      // A class that others alone are made of has no vtable of its own name.
      right = right && (own || truth.has(name, function.slot, function.begin));
    }
    if (function.layout != RttiTable::kNone) {
      right = right && function.slot < truth.length(table.classes[function.layout].name);
    }
    if (argc > 3) {
      fmt::print("{}  {}\n", text, fmt::join(symbols, " | "));
    }
    if (right) continue;
    ++wrong;
    fmt::print("WRONG {:#x} {}: it is {}\n", function.begin, text, fmt::join(symbols, " | "));
  }
  fmt::print(
      "{}: {} of {} C++ functions have a name, {} of one class each, {} "
      "of them inherited there, {} wrong\n",
      argv[1], named, truth.function_count(), of_one_class, inherited, wrong);
  return wrong == 0 && of_one_class > 20 ? 0 : 1;
}
