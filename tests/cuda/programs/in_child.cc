// The parent does not touch CUDA; a child that it forks starts this program again, and that does.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "client.h"

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != nullptr);
    use_device(0);
    const CUdeviceptr large = allocate(30 * kMiB);
    OK(cuMemFree(large));
    allocate(1234);
    return 0;
  }
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "child", nullptr);
    _exit(127);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return finish();
}
