#!/usr/bin/env python3
"""Memory that kernels reach by addresses they read from memory: what its rows say.

usage: address_tables.py GPUPEAK

Needs nvcc with cuBLAS, and a GPU. Each buffer of the program has a size of its own and 5 % of the peak, so that it has a row; a table, a structure, a constant, a
variable of the device or an array for a batched product has its address. One buffer is never used. Prints what each row
says, and exits with 1 if it is not what the program does.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = r"""
#include <cstdio>
#include <cublas_v2.h>

struct Parts { float* out; const float* in; int n; };
__constant__ Parts g_parts;
__device__ float* g_list;

__global__ void by_structure(Parts* parts) { parts->out[threadIdx.x] = parts->in[threadIdx.x]; }
__global__ void by_constant() { g_parts.out[threadIdx.x] = g_parts.n; }
__global__ void by_variable() { g_list[threadIdx.x] = 1; }
__global__ void by_table(float** rows) { rows[blockIdx.x][threadIdx.x] = 2; }

#define TAKE(type, name, number) type name; cudaMalloc(&name, size_t(64 + number) << 20)

int main() {
  TAKE(float*, out, 2);
  TAKE(float*, in, 3);
  TAKE(float*, by_constant_alone, 4);
  TAKE(Parts*, of_parts, 5);
  Parts parts{out, in, 7}, constant{by_constant_alone, nullptr, 7};
  cudaMemcpy(of_parts, &parts, sizeof parts, cudaMemcpyHostToDevice);
  by_structure<<<1, 32>>>(of_parts);
  cudaMemcpyToSymbol(g_parts, &constant, sizeof constant);
  by_constant<<<1, 32>>>();
  TAKE(float*, list, 6);
  cudaMemcpyToSymbol(g_list, &list, sizeof list);
  by_variable<<<1, 32>>>();
  TAKE(float*, first, 7);
  TAKE(float*, second, 8);
  TAKE(float**, of_rows, 9);
  float* rows[] = {first, second};
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMemcpyAsync(of_rows, rows, sizeof rows, cudaMemcpyDefault, stream);
  by_table<<<2, 32, 0, stream>>>(of_rows);
  TAKE(float*, a, 10);
  TAKE(float*, b, 11);
  TAKE(float*, c, 12);
  TAKE(float**, tables, 13);
  cudaMemcpy(tables, &a, 8, cudaMemcpyHostToDevice);
  cudaMemcpy(tables + 1, &b, 8, cudaMemcpyHostToDevice);
  cudaMemcpy(tables + 2, &c, 8, cudaMemcpyHostToDevice);
  cublasHandle_t handle;
  cublasCreate(&handle);
  const float one = 1, zero = 0;
  cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 64, 64, 64, &one, tables, 64, tables + 1, 64, &zero, tables + 2, 64, 1);
  TAKE(void*, never, 14);
  printf("%d\n", cudaDeviceSynchronize());
}
"""
BY_ADDRESS, USED, NEVER = (2, 3, 4, 6, 7, 8, 10, 11, 12), (5, 9, 13), (14,)  # and 64 MiB

gpupeak = pathlib.Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as folder:
    source, program, log = (pathlib.Path(folder) / name for name in ("tables.cu", "tables", "tables.gplog"))
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["nvcc", "-O1", "-arch=sm_90", "-o", program, source, "-lcublas"], check=True)
    ran = subprocess.run([gpupeak, "run", "-o", log, "--", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "0\n", ran.stdout
    report = json.loads(subprocess.run([gpupeak, "report", "--json", "--top", "99", log], stdout=subprocess.PIPE, check=True).stdout)
found = {(row["bytes"] >> 20) - 64: row["role"] for peak in report["peaks"] if peak["scope"] == "device:0" for row in peak["holders"]}
wrong = 0
print("| buffer, MiB | its address copied in | kernels | never seen used | |\n|---|---|---|---|---|")
for number in BY_ADDRESS + USED + NEVER:
    role = found[number]
    good = (role["addresses_copied"] > 0, bool(role["kernels"]), role["unused_bytes"] > 0) == (number in BY_ADDRESS, number in USED, number in NEVER)
    wrong += not good
    kernels = ", ".join(kernel["library"] or kernel["name"] for kernel in role["kernels"])
    print(f"| {64 + number} | {role['addresses_copied']} | {kernels} | {role['unused_bytes']} | {'as it is' if good else '**WRONG**'} |")
print(ran.stderr)
sys.exit(wrong > 0)
