// The test program's main function, the same for both versions of Catch2.
#define CATCH_CONFIG_RUNNER
#include "catch.h"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
