#include "hooks/pool_rule_book.h"

#include <string_view>

#include "base/environment.h"
#include "base/memory.h"
#include "base/proc_file.h"

// rules/llamacpp.toml, which the command has too.
__asm__(
    ".pushsection .rodata\n"
    "gpupeak_pool_rules_begin:\n"
    ".incbin \"" GPUPEAK_POOL_RULES_FILE
    "\"\n"
    "gpupeak_pool_rules_end:\n"
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_pool_rules_begin[];
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_pool_rules_end[];

namespace gpupeak::preload {

constinit PoolRuleState g_pool_rules[kMostPoolRules];
constinit size_t g_pool_rule_count = 0;

namespace {

PoolClass class_of(PoolRuleState& rule) {
  const PoolRule& says = rule.says;
  const auto slot = [](uint32_t number) { return number == PoolRule::kNone ? kNoSlot : number; };
  const auto argument = [](uint32_t number) {
    return number == PoolRule::kNone ? kNoArgument : static_cast<uint8_t>(number);
  };
  const size_t destructor = slot(says.destructor);
  return {.maker = &rule.maker,
          .slot = {slot(says.allocate), kNoSlot, kNoSlot, slot(says.free), destructor,
                   destructor == kNoSlot ? kNoSlot : destructor + 1},
          .size_at = argument(says.size),
          .address_at = argument(says.address),
          .given_at = argument(says.given),
          .object_at = rule.exported() ? argument(says.pool) : uint8_t{0}};
}

void read_rules(std::string_view text, std::string_view origin, bool built_in) {
  size_t at = 0;
  while (at < text.size() && g_pool_rule_count < kMostPoolRules) {
    PoolRuleState& rule = g_pool_rules[g_pool_rule_count];
    Text<256> problem;
    if (next_pool_rule(text, at, rule.says, problem)) {
      rule.maker.shown = rule.says.name.c_str();
      rule.maker.fact = "pools.rule";
      rule.of = class_of(rule);
      rule.built_in = built_in;
      ++g_pool_rule_count;
    } else if (!problem.view().empty()) {
      Text<512> whole;
      pools_off(whole.add(origin).add(": ").add(problem.view()).view());
    }
  }
}

}  // namespace

void read_pool_rules() {
  const std::string_view path = variable("GPUPEAK_POOL_RULES");
  if (!path.empty()) {
    constexpr size_t kMostBytes = 256 << 10;
    Path file;
    file.add(path);
    char* const text = static_cast<char*>(map_pages(kMostBytes));
    const size_t bytes = text == nullptr ? 0 : read_file(file.c_str(), text, kMostBytes);
    if (bytes == 0) {
      Text<512> problem;
      pools_off(problem.add("GPUPEAK_POOL_RULES: ").add(path).add(" cannot be read").view());
    }
    read_rules({text, bytes}, path, false);
    if (text != nullptr) unmap_pages(text, kMostBytes);
  }
  read_rules({gpupeak_pool_rules_begin,
              static_cast<size_t>(gpupeak_pool_rules_end - gpupeak_pool_rules_begin)},
             "built-in rules", true);
}

}  // namespace gpupeak::preload
