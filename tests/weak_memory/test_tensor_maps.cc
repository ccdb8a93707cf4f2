// Launches look a tensor map's address up while another thread notes a map in its place.
#include "catch.h"
#include "explorer.h"
#include "track/launch_parameters.cc"

namespace gpupeak::preload {
namespace {

KnownMap g_map;
uint64_t g_first[kWords], g_second[kWords];

void look() {
  const uint64_t second = g_map.address_of(g_second), first = g_map.address_of(g_first);
  weak::require(second == 0 || second == 2, "another map's address");
  weak::require(first == 0 || first == 1 || first == 3, "another map's address");
}

}  // namespace
}  // namespace gpupeak::preload

TEST_CASE("a map is found with its own address", "[weak]") {
  using namespace gpupeak::preload;
  g_second[0] = g_second[kWords - 1] = 7;
  const auto setup = [] {
    g_map.version = 0;
    g_map.set(g_first, 1);
  };
  const auto change = [] { g_map.set(g_second, 2), g_map.set(g_first, 3); };
  CHECK(weak::needs_each_order({{{change, look}, setup}}, 30000) == "");
}
