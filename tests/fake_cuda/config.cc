#include "config.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

namespace fake_cuda {
namespace {

std::string environment(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

uint64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  const uint64_t number = strtoull(text.c_str(), &end, 10);
  switch (*end) {
    case 'K':
      return number << 10;
    case 'M':
      return number << 20;
    case 'G':
      return number << 30;
    case 'T':
      return number << 40;
    default:
      return number;
  }
}

Config read_config() {
  Config result;
  if (const auto text = environment("FAKE_CUDA_DEVICES"); !text.empty()) {
    result.devices = atoi(text.c_str());
  }
  if (const auto text = environment("FAKE_CUDA_MEMORY"); !text.empty()) {
    result.memory_bytes = parse_bytes(text);
  }
  result.integrated = environment("FAKE_CUDA_UNIFIED") == "integrated";
  result.coherent = environment("FAKE_CUDA_UNIFIED") == "coherent";
  result.costs = environment("FAKE_CUDA_COSTS") == "on";
  result.others_bytes = parse_bytes(environment("FAKE_CUDA_OTHERS"));
  result.joining_bytes = parse_bytes(environment("FAKE_CUDA_JOINING"));
  result.leaving_bytes = parse_bytes(environment("FAKE_CUDA_LEAVING"));
  result.host_blocks = parse_bytes(environment("FAKE_CUDA_HOST_BLOCKS"));
  result.ledger_path = environment("FAKE_CUDA_LEDGER");
  if (const size_t at = result.ledger_path.find("%p"); at != std::string::npos) {
    result.ledger_path.replace(at, 2, std::to_string(getpid()));
  }
  return result;
}

struct Failure {
  uint64_t call;  ///< which call fails, counted from 1
  int result;
};

struct Injection {
  std::multimap<std::string, Failure, std::less<>> failures;
  std::map<std::string, uint64_t, std::less<>> calls;
};

Injection read_injection() {
  Injection result;
  std::istringstream rows(environment("FAKE_CUDA_FAIL"));
  for (std::string row; std::getline(rows, row, ',');) {
    std::istringstream fields(row);
    std::string name, call, code;
    std::getline(fields, name, ':');
    std::getline(fields, call, ':');
    std::getline(fields, code, ':');
    if (!name.empty()) {
      result.failures.emplace(name,
                              Failure{strtoull(call.c_str(), nullptr, 10), atoi(code.c_str())});
    }
  }
  return result;
}

}  // namespace

// Never destroyed: programs may call the driver from their exit handlers.
const Config& config() {
  static const Config* const instance = new Config(read_config());
  return *instance;
}

int injected_failure(const char* base_name) {
  static Injection* const injection = new Injection(read_injection());
  if (injection->failures.empty()) return 0;
  const std::string_view name(base_name);
  const auto [first, last] = injection->failures.equal_range(name);
  if (first == last) return 0;
  const uint64_t call = ++injection->calls[std::string(name)];
  for (auto at = first; at != last; ++at) {
    if (at->second.call == call) return at->second.result;
  }
  return 0;
}

}  // namespace fake_cuda
