/* D's collector stops all threads by signals while they map and unmap buffers and allocate from the C library, and asks the
 * loader for its roots meanwhile.
 *
 * usage: collected_d [ROUNDS] */
import core.atomic, core.memory, core.stdc.stdlib, core.stdc.stdio, core.sys.posix.sys.mman, core.sys.posix.unistd, core.thread;

class Node {
  Node left, right;
  ubyte[32] pad;
}

shared bool g_done;

void busy() {
  while (!atomicLoad(g_done)) {
    auto pages = cast(ubyte*) mmap(null, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    *pages = 1;
    munmap(pages, 8192);
    core.stdc.stdlib.free(core.stdc.stdlib.malloc(100));
  }
}

void main(string[] arguments) {
  enum threads = 4, wide = 2000;
  const rounds = arguments.length > 1 ? atoi((arguments[1] ~ '\0').ptr) : 20;
  alarm(40); /* a deadlock ends the program by this signal */
  Thread[] started;
  foreach (i; 0 .. threads) started ~= new Thread(&busy).start();
  Node[] keep;
  foreach (round; 0 .. rounds) {
    keep = new Node[](wide);
    foreach (ref node; keep) {
      node = new Node;
      node.left = new Node;
    }
    GC.collect();
    GC.minimize();
  }
  atomicStore(g_done, true);
  foreach (thread; started) thread.join();
  puts("ok");
}
