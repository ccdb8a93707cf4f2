// A captured allocation takes addresses and no pool memory; what the stream does outside is as
// ever.
#include "client.h"

extern "C" CUresult instantiate(CUgraphExec* out, CUgraph graph,
                                unsigned long long flags) asm("cuGraphInstantiateWithFlags");

int main() {
  use_device(0);
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr before, captured;
  OK(cuMemAllocAsync(&before, kMiB, stream));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuMemAllocAsync(&captured, 200 * kMiB, stream));
  OK(cuMemFreeAsync(captured, stream));
  CUgraph graph;
  OK(cuStreamEndCapture(stream, &graph));
  CHECK(live(0, "pool_used") == kMiB);
  CUgraphExec exec;
  OK(instantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(live(0, "graph_reserved") == 224 * kMiB);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  CHECK(live(0, "graph_reserved") == 224 * kMiB);
  OK(cuDeviceGraphMemTrim(0));
  CHECK(live(0, "graph_reserved") == 0);
  OK(cuMemFreeAsync(before, stream));

  // In the global mode a call that cannot be captured fails, and the tool must make none of its
  // own.
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUdeviceptr refused;
  CHECK(cuMemAlloc(&refused, 4096) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(cuStreamEndCapture(stream, &graph));
  allocate(4096);
  return finish();
}
