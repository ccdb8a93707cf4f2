// Two test cases that allocate, for examples/harnesses/catch2_listener.h.
#include <cstdlib>
#include <cstring>

#include "examples/harnesses/catch2_listener.h"
// Behind it, as its head says.
#include "tests/unit/catch.h"

namespace {

void use(size_t bytes) {
  void* block = malloc(bytes);
  memset(block, 1, bytes);
  REQUIRE(block != nullptr);
  free(block);
}

}  // namespace

TEST_CASE("allocates") {
  use(size_t{20} << 20);
}
TEST_CASE("allocates little") {
  use(1000);
}
