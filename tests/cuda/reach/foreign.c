/* A library that is not CUDA and whose names begin as CUDA's do. */
int cuInit(unsigned flags) {
  return 4200 + (int)flags;
}
int cuMemAlloc_v2(void) {
  return 4242;
}
int cuNothingOfTheKind(void) {
  return 43;
}
