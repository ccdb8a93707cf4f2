#!/usr/bin/env python3
"""Makes a stripped C++ library as large as the largest that are measured, without compiling it: 400 MB with 420 000 functions, of
which 125 000 are virtual, as in XLA's plugin. tests/bench/rtti_reader.cc reads it:

    tests/bench/rtti_library.py /tmp/large.so && build/release/tests/bench/bench_rtti_reader /tmp/large.so
"""
import argparse
import subprocess


def assembly(classes, slots, functions, megabytes):
    function_bytes = max(16, megabytes * 1_000_000 * 3 // 5 // (functions + classes * slots) // 16 * 16)
    yield ".text\n"
    for i in range(functions):
        yield f"g{i}: .cfi_startproc\nlea t{i % classes}(%rip), %rax\nret\n.cfi_endproc\n.skip {function_bytes - 16}, 0x90\n.p2align 4\n"
    for i in range(classes):
        for slot in range(slots):
            yield (f"f{i}_{slot}: .cfi_startproc\nlea v{i}+16(%rip), %rax\nret\n.cfi_endproc\n"
                   f".skip {function_bytes - 16}, 0x90\n.p2align 4\n")
    yield ".section .rodata\n"
    for i in range(classes):
        yield f's{i}: .asciz "{len(str(i)) + 1}C{i}"\n'
    yield '.section .data.rel.ro,"aw"\n.p2align 3\n'
    for i in range(classes):
        # Each tenth has no base; the others derive from it, in turn.
        base = i - 1 if i % 10 else None
        kind = "_ZTVN10__cxxabiv117__class_type_infoE" if base is None else "_ZTVN10__cxxabiv120__si_class_type_infoE"
        yield f"t{i}: .quad {kind}+16, s{i}" + ("" if base is None else f", t{base}") + "\n"
        yield f"v{i}: .quad 0, t{i}, {', '.join(f'f{i}_{slot}' for slot in range(slots))}\n"
    # What is neither code nor type information: tables of other pointers, and constants.
    yield ".p2align 3\n" + "".join(f".quad g{i}, s{i % classes}\n" for i in range(0, functions, 2))
    yield f".section .rodata\n.skip {megabytes * 1_000_000 // 4}, 0x5a\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--classes", type=int, default=12_500)
    parser.add_argument("--slots", type=int, default=10)
    parser.add_argument("--functions", type=int, default=295_000, help="that are not virtual")
    parser.add_argument("--megabytes", type=int, default=490)
    options = parser.parse_args()
    with subprocess.Popen(["cc", "-shared", "-nostdlib", "-s", "-Wl,--hash-style=gnu", "-Wl,--build-id", "-o", options.out, "-x", "assembler", "-"],
                          stdin=subprocess.PIPE, text=True) as compiler:
        compiler.stdin.writelines(assembly(options.classes, options.slots, options.functions, options.megabytes))
        compiler.stdin.close()
        if compiler.wait() != 0:
            raise SystemExit("the assembler failed")


main()
