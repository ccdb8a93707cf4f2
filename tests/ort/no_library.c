/* Without ONNX Runtime nobody finds its entry point. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  printf("%d\n", dlsym(RTLD_DEFAULT, "OrtGetApiBase") != NULL);
  printf("%d\n", dlerror() != NULL);
  return 0;
}
