/* Mono's collector stops all threads by signals (MONO_THREADS_SUSPEND=preemptive) while they map and unmap memory and allocate
 * from the C library, and waits until each has answered.
 *
 * usage: collected_mono.exe [ROUNDS] */
using System;
using System.Runtime.InteropServices;
using System.Threading;

class Node {
  public Node Left;
}

static class Collected {
  [DllImport("libc.so.6")] static extern IntPtr malloc(UIntPtr bytes);
  [DllImport("libc.so.6")] static extern void free(IntPtr block);
  [DllImport("libc.so.6")] static extern IntPtr mmap(IntPtr at, UIntPtr bytes, int access, int flags, int file, long offset);
  [DllImport("libc.so.6")] static extern int munmap(IntPtr at, UIntPtr bytes);
  [DllImport("libc.so.6")] static extern uint alarm(uint seconds);

  const int ReadWrite = 3, PrivateAnonymous = 0x22;
  static volatile bool g_done;

  static void Busy() {
    var pages = new UIntPtr(8192);
    while (!g_done) {
      IntPtr at = mmap(IntPtr.Zero, pages, ReadWrite, PrivateAnonymous, -1, 0);
      munmap(at, pages);
      free(malloc(new UIntPtr(100)));
    }
  }

  static void Main(string[] arguments) {
    int rounds = arguments.Length > 0 ? int.Parse(arguments[0]) : 20;
    alarm(40); /* a deadlock ends the program by this signal */
    var threads = new Thread[4];
    for (int i = 0; i < threads.Length; ++i) (threads[i] = new Thread(Busy)).Start();
    for (int round = 0; round < rounds; ++round) {
      var keep = new Node[2000];
      for (int i = 0; i < keep.Length; ++i) keep[i] = new Node { Left = new Node() };
      GC.Collect();
      GC.KeepAlive(keep);
    }
    g_done = true;
    foreach (Thread thread in threads) thread.Join();
    Console.WriteLine("ok");
  }
}
