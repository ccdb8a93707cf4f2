// Calls that meet: two threads load code at the same time, and one frees as much as another one's
// call takes. Each meeting is arranged, by what the simulated driver calls when a call of it
// returns. Nothing may be told of the wrong cause.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "client.h"

extern "C" void fake_cuda_on_return(void (*)(const char* base_name));

namespace {

constexpr uint64_t kCodeBytes = 6 * kMiB;  // what the driver takes for a module that is launched

CUcontext g_context;
thread_local enum class Role { kNone, kFirst, kSecond } t_role = Role::kNone;
std::atomic<int> g_step{0};
std::atomic<bool> g_have_met{false};
CUdeviceptr g_block;

void reach(int step) {
  if (g_step < step) g_step = step;
}
void wait_for(int step) {
  while (g_step < step) std::this_thread::yield();
}

CUfunction new_function() {
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, "image"));
  OK(cuModuleGetFunction(&function, module, "plain"));
  return function;
}

void launch(CUfunction function, Role role) {
  OK(cuCtxSetCurrent(g_context));
  t_role = role;
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  t_role = Role::kNone;
}

/// The second one's launch takes its memory while the first one is about to ask what is in use,
/// before its own launch.
void inside_the_first_reading(const char* call) {
  static thread_local int questions = 0;
  if (t_role == Role::kFirst && strcmp(call, "cuCtxGetDevice") == 0 && ++questions == 2) {
    reach(1);
    wait_for(2);
    g_have_met = true;
  } else if (strcmp(call, "cuLaunchKernel") == 0) {
    if (t_role == Role::kSecond) {
      reach(2);
      wait_for(3);
    } else if (t_role == Role::kFirst) {
      reach(3);
    }
  }
}

/// What is in use is the same before and after the first one's launch.
void inside_the_launch(const char* call) {
  if (t_role != Role::kFirst || strcmp(call, "cuLaunchKernel") != 0) return;
  t_role = Role::kNone;
  std::thread([] {
    OK(cuCtxSetCurrent(g_context));
    OK(cuMemFree(g_block));
  }).join();
}

void read() {
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  OK(cuCtxSynchronize());
}

}  // namespace

int main() {
  use_device(1);
  read();
  g_context = use_device(0);
  read();
  const CUfunction a = new_function(), b = new_function(), c = new_function();
  allocate(100 * kMiB);

  fake_cuda_on_return(inside_the_first_reading);
  std::thread first([a] { launch(a, Role::kFirst); });
  std::thread second([b] {
    wait_for(1);
    launch(b, Role::kSecond);
  });
  first.join();
  second.join();
  fake_cuda_on_return(nullptr);
  CHECK(g_have_met);
  read();

  g_block = allocate(kCodeBytes);
  fake_cuda_on_return(inside_the_launch);
  launch(c, Role::kFirst);
  fake_cuda_on_return(nullptr);
  read();
  return finish();
}
