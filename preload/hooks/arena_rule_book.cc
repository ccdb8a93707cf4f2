#include "hooks/arena_rule_book.h"

#include <string_view>

#include "base/environment.h"
#include "base/memory.h"
#include "base/proc_file.h"

// The built-in rule files (preload/CMakeLists.txt). The command has them, too.
__asm__(
    ".pushsection .rodata\n"
    "gpupeak_arena_rules_begin:\n"
    ".incbin \"" GPUPEAK_POOL_RULES_FILE
    "\"\n"
    "gpupeak_arena_rules_end:\n"
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_begin[];
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_end[];

namespace gpupeak::preload {

constinit ArenaRuleState g_arena_rules[kMostArenaRules];
constinit size_t g_arena_rule_count = 0;

namespace {

ArenaClass class_of(ArenaRuleState& rule) {
  const ArenaRule& says = rule.says;
  const auto slot = [](uint32_t number) { return number == ArenaRule::kNone ? kNoSlot : number; };
  const auto argument = [](uint32_t number) {
    return number == ArenaRule::kNone ? kNoArgument : static_cast<uint8_t>(number);
  };
  const size_t destructor = slot(says.destructor);
  return {.maker = &rule.maker,
          .slot = {slot(says.allocate), kNoSlot, kNoSlot, slot(says.free), destructor,
                   destructor == kNoSlot ? kNoSlot : destructor + 1},
          .size_at = argument(says.size),
          .address_at = argument(says.address),
          .given_at = argument(says.given),
          .object_at = rule.exported() ? argument(says.arena) : uint8_t{0}};
}

void read_rules(std::string_view text, std::string_view origin, bool built_in) {
  size_t at = 0;
  while (at < text.size() && g_arena_rule_count < kMostArenaRules) {
    ArenaRuleState& rule = g_arena_rules[g_arena_rule_count];
    Text<256> problem;
    if (next_arena_rule(text, at, rule.says, problem)) {
      rule.maker.shown = rule.says.name.c_str();
      rule.maker.fact = "pools.rule";
      rule.of = class_of(rule);
      rule.built_in = built_in;
      ++g_arena_rule_count;
    } else if (!problem.view().empty()) {
      Text<512> whole;
      arenas_off(whole.add(origin).add(": ").add(problem.view()).view());
    }
  }
}

}  // namespace

void read_arena_rules() {
  const std::string_view path = variable("GPUPEAK_POOL_RULES");
  if (!path.empty()) {
    constexpr size_t kMostBytes = 256 << 10;
    Path file;
    file.add(path);
    char* const text = static_cast<char*>(map_pages(kMostBytes));
    const size_t bytes = text == nullptr ? 0 : read_file(file.c_str(), text, kMostBytes);
    if (bytes == 0) {
      Text<512> problem;
      arenas_off(problem.add("GPUPEAK_POOL_RULES: ").add(path).add(" cannot be read").view());
    }
    read_rules({text, bytes}, path, false);
    if (text != nullptr) unmap_pages(text, kMostBytes);
  }
  read_rules({gpupeak_arena_rules_begin,
              static_cast<size_t>(gpupeak_arena_rules_end - gpupeak_arena_rules_begin)},
             "built-in rules", true);
}

}  // namespace gpupeak::preload
