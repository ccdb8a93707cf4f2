"""The rule sets for servers of models, on made-up stacks: modules at the paths and with the names of vLLM's, SGLang's and TensorRT-LLM's
sources, which allocate known sizes of the simulated driver. It cannot tell whether the real ones still have these names.

usage: serving_rules.py LIBGPUPEAK GPUPEAK DRIVER_FOLDER vllm|sglang|tensorrt-llm
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from common import GPUPEAK, Skipped, environment, expect, run_checks  # noqa: E402
from driver_calls import DRIVER_CALLS  # noqa: E402

DRIVER, CASE = sys.argv[3:5]

PIN = "def pin(size): ok(cuda.cuMemAllocHost_v2(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size)))\n"
# path → text; `alloc`, `free` and `pin` are the driver's.
VLLM = {
    "vllm/device_allocator/cumem.py": """
class CuMemAllocator:
    def sleep(self, blocks):
        for block in blocks: pin(1 * MIB), free(block)  # its copy in host memory
    def wake_up(self): return alloc(64 * MIB)
""",
    "vllm/distributed/parallel_state.py": "def init_distributed_environment(): return alloc(2 * MIB)\n",
    "vllm/model_executor/model_loader/default_loader.py": "def load(): return alloc(64 * MIB)\n",
    "vllm/v1/worker/gpu_model_runner.py": """
from vllm.model_executor.model_loader.default_loader import load
class GPUModelRunner:
    def load_model(self): return load()
    def profile_run(self): return self._dummy_run()
    def _dummy_run(self): return alloc(16 * MIB)
    def initialize_kv_cache(self): return self._allocate_kv_cache_tensors()
    def _allocate_kv_cache_tensors(self): return alloc(128 * MIB)
    def capture_model(self): return alloc(8 * MIB), self._dummy_run()
    def execute_model(self): return alloc(4 * MIB)
""",
    "vllm/v1/worker/gpu_worker.py": """
from vllm.device_allocator.cumem import CuMemAllocator
from vllm.distributed.parallel_state import init_distributed_environment
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
class Worker:
    def __init__(self): self.model_runner = GPUModelRunner()
    def init_device(self): init_distributed_environment()
    def load_model(self): self.weights = self.model_runner.load_model()
    def determine_available_memory(self): free(self.model_runner.profile_run())
    def initialize_from_config(self): self.model_runner.initialize_kv_cache()
    def compile_or_warm_up_model(self): self.model_runner.capture_model()
    def execute_model(self): self.model_runner.execute_model()
    def sleep(self): CuMemAllocator().sleep([self.weights])
    def wake_up(self): CuMemAllocator().wake_up()
worker = Worker()
for step in ("init_device", "load_model", "determine_available_memory", "initialize_from_config", "compile_or_warm_up_model", "execute_model",
             "sleep", "wake_up", "execute_model"):
    getattr(worker, step)()
""",
}
SGLANG = {
    "sglang/srt/distributed/parallel_state.py": "def init_distributed_environment(): return alloc(2 * MIB)\n",
    "sglang/srt/mem_cache/memory_pool.py": """
class MHATokenToKVPool:
    def __init__(self): self._create_buffers()
    def _create_buffers(self): self.k_buffer = alloc(128 * MIB)
""",
    "sglang/srt/model_loader/loader.py": "def load_model(): return alloc(64 * MIB)\n",
    "sglang/srt/model_executor/cuda_graph_runner.py": """
class CudaGraphRunner:
    def __init__(self, runner): self.capture()
    def capture(self): return alloc(24 * MIB)
""",
    "sglang/srt/model_executor/model_runner.py": """
from sglang.srt.distributed.parallel_state import init_distributed_environment
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner
from sglang.srt.model_loader import loader
class ModelRunner:
    def init_torch_distributed(self): init_distributed_environment()
    def load_model(self): self.weights = loader.load_model()
    def init_memory_pool(self): MHATokenToKVPool()
    def init_device_graphs(self): CudaGraphRunner(self)
    def forward(self): self.forward_decode()
    def forward_decode(self): alloc(4 * MIB)
""",
    "sglang/srt/managers/scheduler_update_weights_mixin.py": """
from sglang.srt.model_executor.model_runner import ModelRunner
class SchedulerUpdateWeightsMixin:
    def release_memory_occupation(self): alloc(1 * MIB), free(self.runner.weights)  # copies what it needs later
    def resume_memory_occupation(self): alloc(64 * MIB)
scheduler = SchedulerUpdateWeightsMixin()
scheduler.runner = runner = ModelRunner()
for step in (runner.init_torch_distributed, runner.load_model, runner.init_memory_pool, runner.init_device_graphs, runner.forward,
             scheduler.release_memory_occupation, scheduler.resume_memory_occupation, runner.forward):
    step()
""",
}
TENSORRT_LLM = {
    "tensorrt_llm/_torch/distributed/communicator.py": "def init_pp_comm(): return alloc(2 * MIB)\n",
    "tensorrt_llm/_torch/pyexecutor/model_loader.py": """
class ModelLoader:
    def load(self): return alloc(64 * MIB)
""",
    "tensorrt_llm/_torch/pyexecutor/resource_manager.py": """
class KVCacheManager:
    def __init__(self): self.pools = alloc(128 * MIB)
""",
    "tensorrt_llm/_torch/pyexecutor/cuda_graph_runner.py": """
class CUDAGraphRunner:
    def capture(self): return alloc(8 * MIB)
""",
    "tensorrt_llm/_torch/pyexecutor/model_engine.py": """
from tensorrt_llm._torch.distributed.communicator import init_pp_comm
from tensorrt_llm._torch.pyexecutor.cuda_graph_runner import CUDAGraphRunner
from tensorrt_llm._torch.pyexecutor.model_loader import ModelLoader
from tensorrt_llm._torch.pyexecutor.resource_manager import KVCacheManager
class PyTorchModelEngine:
    def __init__(self): ModelLoader().load()
    def warmup(self): self._run_autotuner_warmup(); self._run_cuda_graph_warmup()
    def _run_autotuner_warmup(self): free(alloc(16 * MIB))
    def _run_cuda_graph_warmup(self): self._capture_generation_cuda_graphs()
    def _capture_generation_cuda_graphs(self): alloc(16 * MIB); CUDAGraphRunner().capture()
    def forward(self): alloc(4 * MIB)
init_pp_comm()
engine = PyTorchModelEngine()
KVCacheManager()
engine.warmup()
engine.forward()
""",
}
MIB = 1 << 20
# What to run → MiB by tag at the peak, phases in their order with the most that was live in them.
CASES = {
    "vllm": (VLLM, "vllm.v1.worker.gpu_worker", {"KV cache": 128, "back from sleep": 64, "CUDA graphs": 24, "activations": 8, "collectives": 2},
             {"load weights": 66, "profile run": 82, "KV cache": 194, "capture graphs": 218, "execute": 226, "sleep": 222, "wake up": 222}),
    "sglang": (SGLANG, "sglang.srt.managers.scheduler_update_weights_mixin",
               {"KV cache": 128, "back from sleep": 64, "CUDA graphs": 24, "activations": 8, "collectives": 2, "Others": 1},
               {"load weights": 66, "KV cache": 194, "capture graphs": 218, "forward": 227, "sleep": 223, "wake up": 223}),
    "tensorrt-llm": (TENSORRT_LLM, "tensorrt_llm._torch.pyexecutor.model_engine",
                     {"KV cache": 128, "weights": 64, "CUDA graphs": 24, "activations": 4, "collectives": 2},
                     {"load weights": 66, "KV cache": 194, "warm up": 210, "capture graphs": 218, "forward": 222}),
}


def gpupeak(*arguments):
    return json.loads(subprocess.run([GPUPEAK, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    sources, start, tags, phases = CASES[CASE]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**sources, "driver.py": DRIVER_CALLS + PIN}.items():
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text if path.endswith("driver.py") else "from driver import MIB, alloc, free, pin\n" + text)
        log = os.path.join(folder, "a.gplog")
        env = {**environment(folder, False), "LD_LIBRARY_PATH": DRIVER, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([GPUPEAK, "run", "-q", "--host", "off", "-o", log, "--", sys.executable, "-m", start], env=env, check=True)
        rules = ("--rules", CASE, "--rules", "auto")
        seen = gpupeak("tags", "--json", *rules, log)
        if all(".py" not in entry["site"] for entry in seen["entries"]):
            raise Skipped("this Python's lines are not recorded")
        held = {tag["name"]: tag["bytes"] / MIB for tag in seen["tags"]}
        expect(held == tags, f"{held}")
        expect(seen["rules"]["sets"][0] == CASE and not seen["rules"]["automatic"], f"{seen['rules']}")
        found = {phase["name"]: phase["metrics"]["device.peak_bytes"] / MIB for phase in gpupeak("report", "--json", *rules, log)["phases"]}
        found = {name: most for name, most in found.items() if name not in ("start", "main", "exit")}
        expect(list(found.items()) == list(phases.items()), f"phases: {found}")


run_checks(main)
