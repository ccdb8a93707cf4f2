#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "catch.h"
#include "tools/run/memory.h"

using gpupeak::tools::MemoryKills;

namespace {

namespace fs = std::filesystem;

/// Counters as the kernel writes them, in files.
class Hierarchies {
 public:
  Hierarchies() {
    std::string pattern = (fs::temp_directory_path() / "gpupeak-cgroups-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    place_ = pattern;
    fs::create_directory(place_ / "v2");
    fs::create_directory(place_ / "v1");
    write("mounts", "30 25 0:26 / " + (place_ / "v2").string() + " rw - cgroup2 cgroup2 rw\n" +
                        "31 25 0:27 / " + (place_ / "v1").string() +
                        " rw - cgroup cgroup rw,memory\n");
  }
  ~Hierarchies() { fs::remove_all(place_); }

  std::string mounts() const { return (place_ / "mounts").string(); }
  void v2(uint64_t refusals, uint64_t kills, const std::string& limit) const {
    write("v2/memory.events", "low 0\nhigh 0\nmax 9\noom " + std::to_string(refusals) +
                                  "\noom_kill " + std::to_string(kills) + "\n");
    write("v2/memory.max", limit + "\n");
  }
  void v1(uint64_t refusals, uint64_t kills, const std::string& limit) const {
    write("v1/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
    write("v1/memory.failcnt", std::to_string(refusals) + "\n");
    write("v1/memory.limit_in_bytes", limit + "\n");
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(place_ / name) << text;
  }
  fs::path place_;
};

bool has_v2() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::")) return true;
  return false;
}

}  // namespace

TEST_CASE("memory kills: the limit of the cgroup that refused, by v2's counters", "[tools]") {
  if (!has_v2()) return;
  const Hierarchies files;
  files.v2(5, 2, "419430400");
  const MemoryKills kills(files.mounts());
  CHECK_FALSE(kills.since(true).has_value());  // a SIGKILL from somebody else
  files.v2(6, 3, "419430400");
  const auto kill = kills.since(true);
  REQUIRE(kill.has_value());
  CHECK(kill->limit_bytes == 400 << 20);
  CHECK(kill->kills == 1);
  CHECK_FALSE(kill->likely);
  CHECK(kill->started_process);
  CHECK_FALSE(kills.since(false)->started_process);
}

TEST_CASE("memory kills: a cgroup without a limit of its own is named without one", "[tools]") {
  if (!has_v2()) return;
  const Hierarchies files;
  files.v2(0, 0, "max");
  const MemoryKills kills(files.mounts());
  files.v2(0, 2, "max");
  const auto kill = kills.since(false);
  REQUIRE(kill.has_value());
  CHECK(kill->limit_bytes == 0);
  CHECK(kill->kills == 2);
  CHECK_FALSE(kill->cgroup.empty());
}

TEST_CASE("memory kills: v1's counters", "[tools]") {
  const Hierarchies files;
  files.v1(7, 0, "67108864");
  MemoryKills kills(files.mounts());
  kills.note(getpid());  // known already: what it counted before stays
  files.v1(9, 1, "67108864");
  const auto kill = kills.since(true);
  REQUIRE(kill.has_value());
  CHECK(kill->limit_bytes == 64 << 20);
  CHECK_FALSE(kill->likely);
}
