// Threads define strings and stacks' nodes while others look them up, and while the process forks:
// what the child's own log says of an id is what the id means.
#include <regex>

#include "base/process_state.h"
#include "catch.h"
#include "explorer.h"
#include "log/definitions.cc"
#include "stack/trie.cc"
#include "stand_ins.h"

namespace gpupeak::preload {
namespace {

ProcessPage g_page;
std::atomic<uint32_t> g_handed;

void begin() {
  begin_process(g_page);
  weak::ignore(&g_counters, sizeof g_counters);
  begin_anew(g_lock);
  begin_anew(g_stream);
  begin_anew(g_strings);
  begin_anew(g_recent);
  begin_anew(g_trie);
  g_handed = 0;
}

/// main calls a function that calls others.
constexpr uintptr_t kMain = 0x1000, kInner = 0x2000;
uint32_t node_of(uintptr_t inner) {
  const uint64_t outer_path = path_hash(0, kMain), path = path_hash(outer_path, inner);
  uint32_t outer = find_node(0, kMain, outer_path);
  uint32_t node = outer == 0 ? 0 : find_node(outer, inner, path);
  if (node != 0) return node;
  NodeMaker maker;
  outer = maker.node(0, kMain, outer_path);
  return maker.node(outer, inner, path);
}

/// The definitions of this process's log, read as the collector reads them.
struct Definitions {
  std::vector<std::string> strings{""};
  std::vector<std::pair<uint32_t, uint64_t>> nodes{{0, 0}};

  static uint64_t number(const uint8_t*& at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      value |= uint64_t{*at & 0x7fu} << shift;
      if ((*at++ & 0x80) == 0) return value;
    }
  }
  void read() {
    uint64_t last = 0;
    const uint8_t* at = g_stream.chunk.begin + sizeof(gpupeak_chunk_header);
    while (at != nullptr && at < g_stream.at()) {
      const uint8_t tag = *at++;
      const uint64_t bytes = number(at);
      const uint8_t* const end = at + bytes;
      if (tag == GPUPEAK_DEF_STRING) {
        const uint64_t length = number(at);
        strings.emplace_back(reinterpret_cast<const char*>(at), length);
      } else if (tag == GPUPEAK_DEF_NODE) {
        const auto id = static_cast<uint32_t>(nodes.size());
        const auto parent = id - static_cast<uint32_t>(number(at));
        const uint64_t delta = number(at);
        last += (delta >> 1) ^ -(delta & 1);
        nodes.emplace_back(parent, last);
      }
      at = end;
    }
  }
  bool is_string(uint32_t id, const char* text) const {
    return id != 0 && id < strings.size() && strings[id] == text;
  }
  bool is_node(uint32_t id, uintptr_t ip) const {
    if (id == 0 || id >= nodes.size() || nodes[id].second != ip) return false;
    const uint32_t parent = nodes[id].first;
    return parent != 0 && parent < id && nodes[parent].second == kMain;
  }
};

void defines() {
  intern_string("other"), node_of(kInner + 1);
  intern_string("both"), node_of(kInner);
}
void forks() {
  const uint32_t own = intern_string("both"), node = node_of(kInner);
  weak::fork();
  t_flags.thread = 0;  // as start() has it
  begin_anew(g_page);
  restart_definitions();
  redefine_nodes();
  const uint32_t other = intern_string("other"), both = intern_string("both");
  const uint32_t other_node = node_of(kInner + 1), third = node_of(kInner + 2);
  Definitions log;
  log.read();
  weak::require(both == own && log.is_string(both, "both"), "a string of before has another id");
  weak::require(log.is_string(other, "other"), "a string's id is another one's");
  weak::require(log.is_node(node, kInner) && node_of(kInner) == node, "a node of before is lost");
  weak::require(log.is_node(other_node, kInner + 1) && log.is_node(third, kInner + 2),
                "a node's id is another one's");
}

}  // namespace

// What definitions use of the log's file and of the process.

std::string_view log_path() {
  return "log";
}
bool take_log_gap(LogGap&, bool) {
  return false;
}
void end_log_rest() {}
bool addresses_are_limited() {
  return true;
}
void* reserve_addresses(size_t bytes) {
  return reserve_pages(bytes);
}
bool commit_pages(void*, size_t) {
  return true;
}
void cover_with_modules(uintptr_t) {}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

TEST_CASE("strings and nodes are whole for who finds them", "[weak]") {
  const auto makes = [] {
    node_of(kInner + 1);
    intern_string("other");
    g_handed.store(node_of(kInner), std::memory_order_release);
  };
  const auto finds = [] {
    const uint32_t handed = g_handed.load(std::memory_order_acquire);
    intern_string("other");
    const uint32_t node = node_of(kInner);
    weak::require(handed == 0 || node == handed, "one stack has two nodes");
  };
  const auto doubles = [] {
    node_of(kInner + 1), node_of(kInner + 2);
    g_handed.store(node_of(kInner), std::memory_order_release);
  };
  const auto begin_small = [] {
    begin();
    weak::require(reserve(), "no room");
    g_trie.mask = 1;
  };
  const std::string unneeded =
      weak::needs_each_order({{{makes, finds}, begin}, {{doubles, finds}, begin_small}}, 4000,
                             {"trie.cc", "definitions.cc"});
  // Not explored: who reads the log meanwhile. Who misses a node while the buckets double looks
  // again under the lock: neither the mask nor a chain needs an order.
  CHECK(std::regex_replace(unneeded, std::regex(":[0-9]+"), "") ==
        "definitions.cc release, not relaxed\n"
        "trie.cc acquire, not relaxed\ntrie.cc acquire, not relaxed\n"
        "trie.cc release, not relaxed\ntrie.cc release, not relaxed\n");
}

TEST_CASE("a forked child's definitions are those of its ids", "[weak]") {
  CHECK(weak::explore({{defines, forks}, begin, [] {}, true}, 10000).failure == "");
  CHECK(weak::explore({{defines, forks, defines}, begin, [] {}, true}, 10000).failure == "");
}
