// What is resident of the driver's mappings: the kernel's list with figures (smaps) against mincore(), which the library
// asks. Prints both sums, what each way took, and mappings where they differ; exit code 1 if there are any.
// nvcc -arch=sm_90 -o driver_pages driver_pages.cu && ./driver_pages
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

__global__ void add(float* values, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) values[i] += 1;
}

int main() {
  const int n = 4 << 20;
  float *device, *pinned, *managed;
  cudaMalloc(&device, n * sizeof(float));
  cudaHostAlloc(&pinned, n * sizeof(float), 0);
  cudaMallocManaged(&managed, n * sizeof(float));
  memset(pinned, 1, n * sizeof(float));
  memset(managed, 1, n / 2 * sizeof(float));
  add<<<n / 256, 256>>>(device, n);
  add<<<n / 1024, 256>>>(managed + 3 * n / 4, n / 4);
  cudaDeviceSynchronize();
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::time_point from) { return std::chrono::duration<double, std::milli>(Clock::now() - from).count(); };
  const auto before = Clock::now();
  std::ifstream list("/proc/self/smaps");
  std::string all((std::istreambuf_iterator<char>(list)), {});
  const double list_ms = ms(before);
  double mincore_ms = 0;
  unsigned long begin = 0, end = 0, kib = 0, by_list = 0, by_mincore = 0, mappings = 0;
  bool is_drivers = false, differs = false;
  for (size_t at = 0, next; at < all.size(); at = next + 1) {
    next = all.find('\n', at);
    const std::string line = all.substr(at, next - at);
    unsigned long from, to;
    if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      begin = from, end = to;
      is_drivers = line.find("/dev/nvidia") != std::string::npos;
    } else if (is_drivers && sscanf(line.c_str(), "Rss: %lu kB", &kib) == 1) {
      std::vector<unsigned char> pages((end - begin) / 4096);
      const auto asked = Clock::now();
      mincore(reinterpret_cast<void*>(begin), end - begin, pages.data());
      mincore_ms += ms(asked);
      unsigned long here = 0;
      for (const unsigned char page : pages) here += (page & 1) * 4;
      if (here != kib) printf("differs: %lx-%lx list %lu KiB, mincore %lu KiB\n", begin, end, kib, here);
      differs |= here != kib;
      by_list += kib, by_mincore += here, ++mappings;
    }
  }
  printf("%lu mappings of the driver: list %lu KiB in %.2f ms (the whole list), mincore %lu KiB in %.2f ms\n", mappings, by_list, list_ms, by_mincore, mincore_ms);
  return differs ? 1 : 0;
}
