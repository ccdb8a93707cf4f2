// Linked with a static jemalloc: the heap is that allocator's, and the report must say that it is
// unseen. What it maps is seen as anonymous memory.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

int main() {
  std::vector<std::string> held;
  for (int i = 0; i < 20000; ++i) held.emplace_back(1000, 'x');
  printf("done %zu\n", held.size());
  return 0;
}
