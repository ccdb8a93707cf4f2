#include "this_program.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace gpupeak::testing {

ThisProgram this_program() {
  ThisProgram self;
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  self.path.assign(path, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        ThisProgram& to = *static_cast<ThisProgram*>(data);
        to.bias = object->dlpi_addr;
        to.begin = UINT64_MAX;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& header = object->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          const uint64_t begin = object->dlpi_addr + header.p_vaddr;
          to.begin = std::min<uint64_t>(to.begin, begin);
          to.end = std::max<uint64_t>(to.end, begin + header.p_memsz);
        }
        return 1;  // the program comes first
      },
      &self);
  return self;
}

}  // namespace gpupeak::testing
