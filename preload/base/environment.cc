#include "base/environment.h"

#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "base/proc_file.h"

namespace gpupeak::preload {
namespace {

// Only zeros until it is read, so that no page of the library's file is copied for it.
constinit union Kept {
  char nothing_yet;
  Environment environment;
  constexpr Kept() : nothing_yet{} {}
} g_kept;
Environment& g_environment = g_kept.environment;

/// See variables().
constinit char** g_early_variables = nullptr;

void begin_anew(Environment& e) {
  static_cast<Settings&>(e) = Settings{};
  e.children_pattern.clear();
  e.out_pattern.clear();
}

/// Digits in a base up to 16. `most` is less than 2^63 if that is no power of 2.
bool parse_digits(std::string_view text, int base, uint64_t most, uint64_t& value) {
  value = 0;
  for (char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
    if (digit >= base || value > most / static_cast<uint64_t>(base)) return false;
    value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit);
  }
  return !text.empty() && value <= most;
}

bool parse_number(std::string_view text, uint64_t& value) {
  return parse_digits(text, 10, INT64_MAX, value);
}

/// "4096", "512KiB", "2MiB", "1G"; powers of 1024.
bool parse_size(std::string_view text, uint64_t& bytes) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (!parse_number(head(text, digits), bytes)) return false;
  std::string_view unit = tail(text, digits);
  int shift = 0;
  if (!unit.empty()) {
    const int letter = unit[0] | 0x20;
    if (letter == 'b') return unit.size() == 1;
    shift = letter == 'k' ? 10 : letter == 'm' ? 20 : letter == 'g' ? 30 : 0;
    if (shift == 0) return false;
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "iB" && unit != "B") return false;
  }
  if (bytes > (UINT64_MAX >> shift)) return false;
  bytes <<= shift;
  return true;
}

void complain(std::string_view name, std::string_view value, std::string_view wanted) {
  Text<512>& text = g_environment.complaint;
  if (!text.view().empty()) text.add("; ");
  text.add(name).add("=").add(head(value, 64)).add(" is not ").add(wanted).add(", ignored");
}

/// Calls `parse(value)` if the variable has a value. False: the value is not understood.
template <typename Parse>
void read_value(std::string_view name, std::string_view wanted, Parse parse) {
  const std::string_view value = variable(name);
  if (!value.empty() && !parse(value)) complain(name, value, wanted);
}

template <typename Value>
struct Choice {
  std::string_view word;
  Value value;
};

/// Sets `setting` by the word that the variable has, if it has one. Without one it keeps its value.
template <typename Value>
void read_choice(std::string_view name, std::initializer_list<Choice<Value>> choices,
                 std::string_view wanted, std::type_identity_t<Value>& setting) {
  read_value(name, wanted, [&](std::string_view value) {
    for (const Choice<Value>& choice : choices) {
      if (value != choice.word) continue;
      setting = choice.value;
      return true;
    }
    return false;
  });
}

void read_auto_or_off(std::string_view name, bool& setting) {
  read_choice<bool>(name, {{"auto", true}, {"off", false}}, "auto or off", setting);
}

void read_switch(std::string_view name, bool& setting) {
  read_choice<bool>(name, {{"1", true}, {"on", true}, {"0", false}, {"off", false}}, "on or off",
                    setting);
}

void read_choices(Environment& e) {
  read_choice<uint32_t>("GPUPEAK_HOST",
                        {{"auto", GPUPEAK_HOST_AUTO},
                         {"full", GPUPEAK_HOST_FULL},
                         {"sampled", GPUPEAK_HOST_SAMPLED},
                         {"counters", GPUPEAK_HOST_COUNTERS},
                         {"off", GPUPEAK_HOST_OFF}},
                        "auto, full, sampled, counters or off", e.host_mode);
  read_choice<Children>("GPUPEAK_CHILDREN",
                        {{"gpu", Children::kGpu},
                         {"cuda", Children::kGpu},  // the old name of gpu
                         {"all", Children::kAll},
                         {"none", Children::kNone}},
                        "gpu, all or none", e.children);
  read_choice<UseRecording>("GPUPEAK_LAST_USE",
                            {{"roles", UseRecording::kRoles},
                             {"1", UseRecording::kAll},
                             {"on", UseRecording::kAll},
                             {"0", UseRecording::kOff},
                             {"off", UseRecording::kOff}},
                            "on or off", e.uses);
  read_auto_or_off("GPUPEAK_PYTHON", e.python);
  read_auto_or_off("GPUPEAK_POOLS", e.arenas);
  read_auto_or_off("GPUPEAK_LEDGER", e.ledger);
  read_switch("GPUPEAK_QUIET", e.quiet);
  read_switch("GPUPEAK_VERIFY_STACKS", e.verify_stacks);
  read_switch("GPUPEAK_NVTX", e.nvtx);
  read_switch("GPUPEAK_ORT_NODES", e.ort_nodes);
  read_switch("GPUPEAK_STAMP_ALL", e.stamp_all);
  read_switch("GPUPEAK_KEEP_PRELOAD", e.keep_preload);
  read_switch("GPUPEAK_SUMMARY", e.summary);
}

void read_numbers(Environment& e) {
  uint64_t number = 0;
  read_value("GPUPEAK_LEDGER_HZ", "a number from 0 to 1000", [&](std::string_view value) {
    if (!parse_number(value, number) || number > 1000) return false;
    e.ledger_hz = static_cast<uint32_t>(number);
    return true;
  });
  read_value("GPUPEAK_SAMPLE", "a size such as 512KiB", [&](std::string_view value) {
    if (!parse_size(value, number) || number == 0) return false;
    e.sample_bytes = number;
    return true;
  });
  read_value("GPUPEAK_LOG_MAX", "a size such as 1GiB, or off", [&](std::string_view value) {
    if (value == "off") number = UINT64_MAX;
    if (value != "off" && (!parse_size(value, number) || number == 0)) return false;
    e.log_max_bytes = number;
    return true;
  });
  constexpr std::string_view kModes = "a file mode such as 0640, with 0600 in it";
  read_value("GPUPEAK_LOG_MODE", kModes, [&](std::string_view value) {
    constexpr uint64_t kOwners = 0600, kMost = 0666;
    if (!parse_digits(value, 8, kMost, number) || (number & kOwners) != kOwners ||
        (number & 0111) != 0)
      return false;
    e.log_mode = static_cast<uint32_t>(number);
    return true;
  });
  if (parse_number(variable("GPUPEAK_RUN_PID"), number)) e.run_pid = static_cast<int>(number);
  if (parse_digits(variable("GPUPEAK_RUN_ID"), 16, UINT64_MAX, number)) e.run_id = number;
}

/// "24GiB", or "24GiB:NAME" for a card of that name.
bool parse_limit(std::string_view text, CardLimit& limit) {
  const size_t colon = position(text, ':');
  if (!parse_size(head(text, colon), limit.bytes) || limit.bytes == 0) return false;
  limit.name.clear();
  if (colon != std::string_view::npos) limit.name.add(tail(text, colon + 1));
  return true;
}

/// "24GiB", or "0=24GiB,1=16GiB". If one part is not understood, no limit is set.
void read_limits(Environment& e) {
  constexpr std::string_view kLimits = "a size such as 24GiB, or 0=24GiB,1=16GiB";
  read_value("GPUPEAK_LIMIT", kLimits, [&e](std::string_view rest) {
    bool understood = true;
    while (understood && !rest.empty()) {
      const size_t comma = position(rest, ',');
      const std::string_view entry = head(rest, comma);
      rest = comma == std::string_view::npos ? std::string_view{} : tail(rest, comma + 1);
      const size_t equals = position(entry, '=');
      uint64_t device = 0;
      if (equals == std::string_view::npos)
        understood = parse_limit(entry, e.limit);
      else
        understood = parse_number(head(entry, equals), device) &&
                     device < GPUPEAK_LOG_MAX_DEVICES &&
                     parse_limit(tail(entry, equals + 1), e.device_limits[device]);
    }
    if (!understood) {
      e.limit = {};
      for (CardLimit& limit : e.device_limits) limit = {};
    }
    return g_has_limits = understood;
  });
}

void read_rank() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}) {
    uint64_t rank;
    if (parse_number(variable(name), rank) && rank < 1'000'000) {
      g_environment.rank = static_cast<int>(rank);
      return;
    }
  }
}

}  // namespace

constinit bool g_has_limits = false;

const Environment& environment() {
  return g_environment;
}

char** variables() {
  return environ != nullptr ? environ : g_early_variables;
}

void forget_early_variables() {
  g_early_variables = nullptr;
}

std::string_view variable(std::string_view name) {
  if (variables() == nullptr) return {};
  for (char** entry = variables(); *entry != nullptr; ++entry) {
    // Each process looks for some twenty variables: most entries differ in their first byte.
    if (**entry == name[0] && strncmp(*entry, name.data(), name.size()) == 0 &&
        (*entry)[name.size()] == '=') {
      return *entry + name.size() + 1;
    }
  }
  return {};
}

void set_environment_of_attached(std::string_view out_pattern) {
  Environment& e = g_environment;
  begin_anew(e);
  e.out_pattern.add(out_pattern);
  e.host_mode = GPUPEAK_HOST_COUNTERS;
  e.children = Children::kNone;
  e.keep_preload = e.summary = false;
  e.quiet = true;
}

bool read_environment() {
  if (environ == nullptr) g_early_variables = initial_environment();
  if (variables() == nullptr) return false;
  Environment& e = g_environment;
  begin_anew(e);
  const std::string_view out = variable("GPUPEAK_OUT");
  e.children_pattern.add(variable("GPUPEAK_CHILDREN_OUT"));
  e.out_pattern.add(out.empty() ? "gpupeak.%n.%p.%r.gplog" : out);
  read_choices(e);
  read_rank();
  read_numbers(e);
  read_limits(e);
  return true;
}

}  // namespace gpupeak::preload
