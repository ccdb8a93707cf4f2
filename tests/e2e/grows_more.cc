// Programs in C++ of which it is known whether the host's memory grows at each step, and by how
// much. usage: grows_more NAME. A step takes and frees 256 KiB, and 2 MiB are held all the time.
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr size_t kKiB = 1 << 10;
#define CALL __attribute__((noinline))

CALL void compute() {
  std::vector<char> some(256 * kKiB);
  asm volatile("" : : "r"(some.data()) : "memory");
}

struct Node {
  std::shared_ptr<Node> self;
  std::array<char, 64 * kKiB> bytes;
};
CALL void keep_cycle() {
  auto node = std::make_shared<Node>();
  node->self = node;
}

std::vector<std::unique_ptr<char[]>> g_kept;
CALL void keep_array(size_t bytes) {
  g_kept.push_back(std::make_unique<char[]>(bytes));
}

std::unordered_map<int, std::string> g_by_number;
CALL void keep_in_map(int step) {
  for (int i = 0; i < 8; ++i) g_by_number.emplace(step * 8 + i, std::string(4 * kKiB, 'x'));
}

/// A step of some milliseconds that keeps what a log line or a record does.
CALL void keep_record(size_t bytes) {
  g_kept.emplace_back(new char[bytes]);
}

struct Request {
  std::map<std::string, std::string> headers;
  std::string body;
};
CALL void serve(int i) {
  Request request;
  for (int header = 0; header < 20; ++header)
    request.headers["header-of-a-request-" + std::to_string(header)] =
        std::string(40 + static_cast<size_t>(i + header) % 40, 'v');
  request.body.resize(20 * kKiB + static_cast<size_t>(i) % 1000);
}

/// A file of lines, of each of which a word is kept: it is read, and the program ends.
CALL void read_words(const char* path) {
  FILE* const file = fopen(path, "r");
  if (file == nullptr) exit(2);
  std::vector<char*> words;
  words.reserve(100'000);
  char line[256];
  while (fgets(line, sizeof line, file) != nullptr) {
    char* const parsed = strdup(line);  // freed
    words.push_back(strndup(parsed, 24));
    free(parsed);
  }
  fclose(file);
  printf("%zu\n", words.size());
}

void pause_ms(int count) {
  std::this_thread::sleep_for(std::chrono::milliseconds(count));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "reads_words") return read_words(argv[2]), 0;
  const size_t held = name == "short_steps" ? 24 * kKiB : 2048 * kKiB;
  std::vector<char> model(held, 1);
  if (name == "cycles") {
    for (int i = 0; i < 40; ++i) compute(), keep_cycle();
  } else if (name == "arrays") {
    for (int i = 0; i < 40; ++i) compute(), keep_array(40 * kKiB);
  } else if (name == "map") {
    for (int i = 0; i < 40; ++i) compute(), keep_in_map(i);
  } else if (name == "short_steps") {
    for (int i = 0; i < 60; ++i) {
      std::vector<char> some(8 * kKiB);
      asm volatile("" : : "r"(some.data()) : "memory");
      keep_record(kKiB);
      pause_ms(6);
    }
  } else if (name == "requests") {
    for (int i = 0; i < 500; ++i) serve(i);
  } else if (name == "requests_leak") {
    for (int i = 0; i < 400; ++i) serve(i), keep_array(20 * kKiB);
  } else if (name == "threads") {
    std::vector<std::thread> all;
    static std::vector<std::vector<std::unique_ptr<char[]>>> kept(16);
    static std::barrier step(16);  // else a loaded machine lets some end far before others
    for (size_t t = 0; t < 16; ++t)
      all.emplace_back([t] {
        for (int i = 0; i < 20; ++i) {
          compute();
          kept[t].push_back(std::make_unique<char[]>(64 * kKiB));
          step.arrive_and_wait();
        }
      });
    for (std::thread& thread : all) thread.join();
  } else if (name == "free_threads") {
    std::vector<std::thread> all;
    static std::vector<std::vector<std::unique_ptr<char[]>>> kept(8);
    for (size_t t = 0; t < 8; ++t)
      all.emplace_back([t] {
        for (int i = 0; i < 60; ++i) {
          compute();
          volatile int some = 0;
          while (some < 400'000) some = some + 1;
          kept[t].push_back(std::make_unique<char[]>(64 * kKiB));
        }
      });
    for (std::thread& thread : all) thread.join();
  } else if (name == "lru") {
    std::unordered_map<int, std::string> cache;
    for (int i = 0; i < 400; ++i) {
      compute();
      cache[i] = std::string(32 * kKiB, 'c');
      if (i >= 30) cache.erase(i - 30);
    }
  } else {
    return 2;
  }
  return 0;
}
