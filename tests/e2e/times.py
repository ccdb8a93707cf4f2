"""The times of large blocks' allocations and frees are right in a program with one thread, though few other events happen."""
import os
import subprocess
import tempfile

from common import GPUPEAK, environment, expect, run_checks

PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { kPause = 300000, kMiB = 1 << 20 };
__attribute__((noipa)) static void* take(unsigned megabytes) {
  void* block = malloc((size_t)megabytes * kMiB);
  memset(block, 1, (size_t)megabytes * kMiB);
  return block;
}
int main() {
  void* first = take(20);
  usleep(kPause);
  void* second = take(30);
  usleep(kPause);
  free(first);
  usleep(kPause);
  free(second);
}
"""


def times(log):
    """Seconds of the allocations and frees of large blocks, by the block's MiB. A free has the negative number."""
    sizes, found = {}, {}
    for line in subprocess.run([GPUPEAK, "dump", log], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if "alloc" in words and int(words[words.index("size") + 1]) >= 1 << 20:
            sizes[words[6]] = int(words[words.index("size") + 1]) >> 20
            found[sizes[words[6]]] = float(words[0])
        elif "free" in words and words[6] in sizes:
            found[-sizes.pop(words[6])] = float(words[0])
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        program, log = os.path.join(folder, "program"), os.path.join(folder, "a.gplog")
        subprocess.run(["cc", "-O1", "-x", "c", "-", "-o", program], input=PROGRAM.encode(), check=True)
        subprocess.run([program], env=environment(folder, True, GPUPEAK_OUT=log), check=True)
        found = times(log)
        expect(set(found) == {20, 30, -20, -30}, f"{found}")
        for later, earlier in ((30, 20), (-20, 30), (-30, -20)):
            expect(found[later] - found[earlier] >= 0.29, f"{later} comes {found[later] - found[earlier]} s after {earlier}: {found}")


run_checks(main)
