// Arrays of one to three dimensions, layered, mipmapped, and one whose memory comes later.
#include "client.h"

int main() {
  use_device(0);
  CUarray flat, deep, sparse, kept;
  const CUDA_ARRAY_DESCRIPTOR two{100, 50, CU_AD_FORMAT_FLOAT, 4};
  OK(cuArrayCreate(&flat, &two));
  CHECK(live(0, "array") == 80000);
  const CUDA_ARRAY_DESCRIPTOR line{333, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  OK(cuArrayCreate(&kept, &line));
  CUDA_ARRAY3D_DESCRIPTOR three{64, 32, 16, CU_AD_FORMAT_HALF, 2, 0};
  OK(cuArray3DCreate(&deep, &three));
  CHECK(live(0, "array") == 80000 + 333 + 64 * 32 * 16 * 4);
  CUmipmappedArray levels;
  OK(cuMipmappedArrayCreate(&levels, &three, 3));
  three.Flags = CUDA_ARRAY3D_SPARSE;
  OK(cuArray3DCreate(&sparse, &three));
  three.Flags = CUDA_ARRAY3D_LAYERED;
  CUmipmappedArray layered;
  OK(cuMipmappedArrayCreate(&layered, &three, 99));
  OK(cuMipmappedArrayDestroy(levels));
  OK(cuMipmappedArrayDestroy(layered));
  OK(cuArrayDestroy(flat));
  OK(cuArrayDestroy(sparse));
  OK(cuArrayDestroy(deep));
  CHECK(cuArrayDestroy(deep) != CUDA_SUCCESS);
  CHECK(live(0, "array") == 333);
  return finish();
}
