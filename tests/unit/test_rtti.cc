// Names from type information: rules for slots, the cache, and damaged tables. Whether the names
// are true is tests/names' to say.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.h"
#include "collector/files/fresh_file.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_names.h"
#include "collector/text/error.h"
#include "collector/text/work.h"
#include "temporary_folder.h"

using namespace gpupeak::collector;
using gpupeak::testing::TemporaryFolder;

namespace {

/// Gemm<float> and Conv, both of Kernel, whose own vtable is not in the file.
RttiTable small_table() {
  RttiTable table;
  table.version = "VERS_1.29.0";
  table.classes = {{"N2ns4GemmIfEE", RttiTable::kNone, {2, 3}},
                   {"N2ns4ConvE", 2, {}},
                   {"N2ns6KernelE", RttiTable::kNone, {}},
                   {"N2ns5EmptyE", RttiTable::kNone, {}}};
  table.functions = {{0x1000, 0x1100, 0, 0, 5, 1},
                     {0x1100, 0x1180, 1, 1, 0, 1},
                     {0x1200, 0x1210, RttiTable::kNone, 2, 2, 3},
                     {0x1300, 0x1310, 0, RttiTable::kNone, 0, 1},
                     {0x1400, 0x1410, RttiTable::kNone, RttiTable::kNone, 1, 9}};
  return table;
}

NameRules kernel_rules(const std::string& versions) {
  const std::string toml = "[[class]]\nname = 'ns::Kernel'\nlibrary = 'libk*.so'\n" + versions +
                           "slots = ['~', '~', 'compute', '', '', 'prepack']\n";
  return parse_rules(toml, "test").names;
}

std::string name_at(const RttiTable& table, uint64_t address, const NameRules* rules,
                    std::string_view library = "libk-1.so", std::string_view version = "") {
  const RttiTable::Function* function = table.function_at(address);
  return function == nullptr ? "?" : RttiNames(table, library, version, rules).name_of(*function);
}

/// This program's file.
struct OwnElf {
  OwnElf() {
    elf_version(EV_CURRENT);
    fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  }
  ~OwnElf() {
    elf_end(elf);
    close(fd);
  }
  OwnElf(const OwnElf&) = delete;
  OwnElf& operator=(const OwnElf&) = delete;

  int fd;
  Elf* elf;
};

}  // namespace

TEST_CASE("rtti: slots have the names that a rule gives them", "[collector]") {
  const RttiTable table = small_table();
  const NameRules rules = kernel_rules("");
  CHECK(name_at(table, 0x1000, nullptr) == "ns::Gemm<float>::[virtual 5]");
  CHECK(name_at(table, 0x10ff, &rules) == "ns::Gemm<float>::prepack");
  CHECK(name_at(table, 0x1100, &rules) == "ns::Conv::~Conv");
  CHECK(name_at(table, 0x1180, &rules) == "?");
  CHECK(name_at(table, 0xfff, &rules) == "?");
  CHECK(name_at(table, 0x1205, &rules) == "ns::Kernel::compute[one of 3 classes]");
  CHECK(name_at(table, 0x1300, &rules) == "ns::Gemm<float>::[virtual]");
  CHECK(name_at(table, 0x1400, &rules).empty());
  CHECK(name_at(table, 0x1000, &rules, "libother.so") == "ns::Gemm<float>::[virtual 5]");
}

TEST_CASE("rtti: rules hold for the versions that they name", "[collector]") {
  const RttiTable table = small_table();
  const auto named = [&](const std::string& versions) {
    const NameRules rules = kernel_rules("versions = '" + versions + "'\n");
    return name_at(table, 0x1000, &rules) == "ns::Gemm<float>::prepack";
  };
  CHECK(named("1.29"));
  CHECK(named("1.15 to 1.29"));
  CHECK(named("1.29.0 to 2"));
  CHECK_FALSE(named("1.15 to 1.28"));
  CHECK_FALSE(named("1.30 to 1.31"));
  RttiTable unknown = small_table();
  unknown.version.clear();
  const NameRules rules = kernel_rules("versions = '1.15 to 1.29'\n");
  CHECK(name_at(unknown, 0x1000, &rules) == "ns::Gemm<float>::[virtual 5]");
  CHECK_THROWS_AS(kernel_rules("versions = 'new'\n"), UsageError);
}

TEST_CASE("rtti: a package's version goes before that of symbols", "[collector]") {
  const NameRules rules = kernel_rules("versions = '1.15 to 1.29'\n");
  const auto name = [&](std::string_view version) {
    return name_at(small_table(), 0x1000, &rules, "libk-1.so", version);
  };
  CHECK(name("") == "ns::Gemm<float>::prepack");
  CHECK(name("1.28.1") == "ns::Gemm<float>::prepack");
  CHECK(name("1.30.0") == "ns::Gemm<float>::[virtual 5]");
}

TEST_CASE("rtti: a module's version is that of the package around it", "[collector]") {
  const TemporaryFolder folder;
  const std::string inner = folder.path_ + "/runtime/capi", module = inner + "/state.so";
  std::filesystem::create_directories(inner);
  const auto write = [&](const std::string& path, const std::string& text) {
    std::ofstream(folder.path_ + path) << text;
  };
  CHECK(package_version(module).empty());
  write("/runtime/__init__.py", "# by us\nimport x\n__version__ = \"1.29.0\"\n");
  CHECK(package_version(module).empty());  // the folder is no package
  write("/runtime/capi/__init__.py", "__version__ = '7'\n");
  CHECK(package_version(module) == "1.29.0");
  for (const char* other : {"", "__version__ = version()\n", "__version__ = '1.2\n",
                            "  __version__ = '1'\n", "__version__ = \n", "version = '1'\n"}) {
    INFO(other);
    write("/runtime/__init__.py", other);
    CHECK(package_version(module).empty());
  }
  CHECK(package_version("state.so").empty());
  CHECK(package_version("").empty());
}

TEST_CASE("rtti: rules describe tables of C APIs", "[collector]") {
  const auto rules = [](const std::string& functions) {
    const std::string toml =
        "[[table]]\nname = 'Api'\nlibrary = 'libk*.so'\nentry = 'get'\n" + functions;
    return parse_rules(toml, "test").names.tables.at(0);
  };
  const TableRule rule = rules(
      "through = 2\nfunctions = [{slot = 7, name = 'run', since = '1.16'}, {slot = 0, name = "
      "'a'}]");
  CHECK(rule.through == 2);
  CHECK(rule.functions.at(0).slot == 7);
  CHECK(rule.functions.at(0).since == Version{1, 16});
  CHECK(rule.functions.at(1).name == "a");
  CHECK(rule.applies_to("libk-1.so"));
  CHECK_FALSE(rule.applies_to("libother.so"));
  CHECK_FALSE(rules("functions = [{slot = 1, name = 'a'}]").through.has_value());
  for (const char* bad :
       {"", "functions = []", "functions = 3", "functions = [{name = 'a'}]",
        "functions = [{slot = 1}]", "functions = [{slot = -1, name = 'a'}]",
        "functions = [{slot = 4096, name = 'a'}]", "functions = [{slot = 'x', name = 'a'}]",
        "functions = [{slot = 1, name = 'a', since = 'new'}]",
        "functions = [{slot = 1, name = 'a', until = '1'}]",
        "through = 1.5\nfunctions = [{slot = 1, name = 'a'}]",
        "size = 1\nfunctions = [{slot = 1, name = 'a'}]"}) {
    INFO(bad);
    CHECK_THROWS_AS(rules(bad), UsageError);
  }
}

TEST_CASE("rtti: a circle of bases has an end", "[collector]") {
  RttiTable table = small_table();
  table.classes[0].fronts = {0, 0, 1};
  table.classes[1].primary = 0;
  const NameRules rules = kernel_rules("");
  CHECK(name_at(table, 0x1000, &rules) == "ns::Gemm<float>::[virtual 5]");
}

TEST_CASE("rtti: a library is read as a whole only for a function that its tables lead to",
          "[collector]") {
  const OwnElf own;
  Elf* elf = own.elf;
  REQUIRE(elf != nullptr);
  const RttiTable truth = read_rtti(elf);
  const LoadedImage image(elf);
  LibraryRtti library(elf);
  const uint64_t scans = work().rtti_scans;
  size_t left_out = 0;
  for (const uint64_t start : image.function_starts()) {
    CHECK(work().rtti_scans == scans);
    if (library.table_for(start + 1) != nullptr) break;
    CHECK(truth.function_at(start + 1) == nullptr);
    ++left_out;
  }
  CHECK(left_out > 0);
  for (const RttiTable::Function& function : truth.functions) {
    const RttiTable* table = library.table_for(function.end - 1);
    REQUIRE(table != nullptr);
    CHECK(*table->function_at(function.end - 1) == function);
  }
  CHECK(work().rtti_scans == scans + 1);
}

TEST_CASE("rtti: of a file that says more of itself than is in it, what is in it is read",
          "[collector]") {
  elf_version(EV_CURRENT);
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
  auto* segments = reinterpret_cast<Elf64_Phdr*>(bytes.data() + header->e_phoff);
  const auto found = [&] {
    Elf* elf = elf_memory(bytes.data(), bytes.size());
    const size_t count = read_rtti(elf).functions.size();
    elf_end(elf);
    return count;
  };
  const size_t truth = found();
  CHECK(truth > 10);
  size_t relro = 0;
  while (relro < header->e_phnum && segments[relro].p_type != PT_GNU_RELRO) ++relro;
  REQUIRE(relro < header->e_phnum);
  segments[relro].p_memsz = UINT64_C(1) << 60;  // constant data
  CHECK(found() >= truth);
  segments[relro].p_vaddr = UINT64_C(1) << 60;
  CHECK(found() == 0);
}

TEST_CASE("rtti: the built-in rules name ONNX Runtime's slots by version", "[collector]") {
  RttiTable table;
  table.classes = {{"N11onnxruntime9CPUKernelE", 1, {}},
                   {"N11onnxruntime8OpKernelE", RttiTable::kNone, {}},
                   {"N11onnxruntime10IAllocatorE", RttiTable::kNone, {}}};
  table.functions = {{0x10, 0x20, 0, 0, 2, 1}, {0x20, 0x30, 2, 2, 4, 1}};
  const auto name = [&](const char* version, uint64_t address) {
    table.version = version;
    return name_at(table, address, &builtin_name_rules(), "libonnxruntime.so.1");
  };
  CHECK(name("VERS_1.29.0", 0x10) == "onnxruntime::CPUKernel::Compute");
  CHECK(name("VERS_1.22.0", 0x20) == "onnxruntime::IAllocator::Reserve");
  CHECK(name("VERS_1.23.2", 0x20) == "onnxruntime::IAllocator::AllocOnStream");
  CHECK(name("VERS_1.14.1", 0x20) == "onnxruntime::IAllocator::[virtual 4]");
  CHECK(name("VERS_1.31.0", 0x20) == "onnxruntime::IAllocator::[virtual 4]");
}

TEST_CASE("rtti: the built-in rules name a provider's slots by version", "[collector]") {
  RttiTable table;
  table.classes = {{"N11onnxruntime20CPUExecutionProviderE", 1, {}},
                   {"N11onnxruntime18IExecutionProviderE", RttiTable::kNone, {}}};
  for (uint32_t slot = 0; slot < 40; ++slot) {
    table.functions.push_back({0x100 + 16 * slot, 0x110 + 16 * slot, 0, 0, slot, 1});
  }
  const auto name = [&](const char* version, uint64_t slot) {
    table.version = version;
    const std::string whole =
        name_at(table, 0x100 + 16 * slot, &builtin_name_rules(), "libonnxruntime.so.1");
    return whole.substr(whole.rfind("::") + 2);
  };
  // Where the release's CPU provider has functions of its own.
  struct {
    const char* version;
    uint64_t registry, allocators;
  } const releases[] = {{"VERS_1.17.3", 4, 25}, {"VERS_1.20.1", 5, 26}, {"VERS_1.22.0", 5, 26},
                        {"VERS_1.23.2", 5, 29}, {"VERS_1.24.1", 5, 29}, {"VERS_1.29.0", 5, 31},
                        {"VERS_1.30.0", 5, 31}};
  for (const auto& release : releases) {
    INFO(release.version);
    CHECK(name(release.version, 2) == "GetDataTransfer");
    CHECK(name(release.version, release.registry) == "GetKernelRegistry");
    CHECK(name(release.version, release.allocators) == "CreatePreferredAllocators");
  }
  CHECK(name("VERS_1.15.1", 3) == "GetDataTransfer");
  CHECK(name("VERS_1.15.1", 5) == "GetKernelRegistry");
  CHECK(name("VERS_1.29.0", 27) == "RegisterStreamHandlers");
  // A release that was not at hand, and slots that could not be confirmed.
  CHECK(name("VERS_1.26.0", 5) == "[virtual 5]");
  CHECK(name("VERS_1.16.0", 5) == "[virtual 5]");
  CHECK(name("VERS_1.30.0", 17) == "[virtual 17]");
  CHECK(name("VERS_1.30.0", 33) == "[virtual 33]");
}

TEST_CASE("rtti: the built-in rules name the slots of XLA's allocators", "[collector]") {
  RttiTable table;
  table.classes = {{"N3tsl12BFCAllocatorE", 1, {}},
                   {"N3tsl9AllocatorE", RttiTable::kNone, {}},
                   {"N15stream_executor18DeviceMemAllocatorE", 3, {}},
                   {"N3tsl12SubAllocatorE", RttiTable::kNone, {}}};
  table.functions = {{0x10, 0x20, 0, 0, 3, 1},
                     {0x20, 0x30, 0, 0, 4, 1},
                     {0x30, 0x40, 0, 0, 6, 1},
                     {0x40, 0x50, 2, 2, 2, 1}};
  const auto name = [&](uint64_t address) {
    return name_at(table, address, &builtin_name_rules(), "xla_cuda_plugin.so");
  };
  CHECK(name(0x10) == "tsl::BFCAllocator::AllocateRaw");
  CHECK(name(0x20) == "tsl::BFCAllocator::AllocateRaw");
  CHECK(name(0x30) == "tsl::BFCAllocator::[virtual 6]");
  CHECK(name(0x40) == "stream_executor::DeviceMemAllocator::Alloc");
}
