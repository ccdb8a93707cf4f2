/* Opens the libraries that are named, and prints how many could be opened. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** libraries) {
  int opened = 0;
  for (int i = 1; i < count; ++i) opened += dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL) != NULL;
  printf("%d\n", opened);
  return 0;
}
