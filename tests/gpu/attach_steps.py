"""What the programs of attach.py have in common: they step all the time, grow once they are attached to, shrink again, and step on once
they were left. What they print must not depend on that; the line "p50" alone does.

A program calls run(step, reserved, in_use, grow, shrink): `step` gives a number; `reserved` what the framework says that it has of the
device, `in_use` what it has handed out of that; `grow` takes a lot of it and gives what keeps it; `shrink` gives it back as far as the framework does that.
Its first argument is the FOLDER of attach.py: it grows when there is FOLDER/attached, stands still then until there is FOLDER/looked, and
ends when there is FOLDER/detached.
"""
import os
import statistics
import sys
import time

STEPS = 300


def run(step, reserved, in_use, grow, shrink):
    folder, numbers, medians = sys.argv[1], [], []

    def timed(count):
        times = []
        for _ in range(count):
            begun = time.perf_counter_ns()
            number = step()
            times.append(time.perf_counter_ns() - begun)
            if len(numbers) < 200:
                numbers.append(number)
        medians.append(statistics.median(times) / 1e3)

    def until(name):
        while not os.path.exists(os.path.join(folder, name)):
            step()

    for _ in range(50):
        numbers.append(step())
    timed(STEPS)
    before = reserved()
    print("ready", flush=True)
    until("attached")
    held = grow()
    timed(STEPS)
    print("grown", reserved() - before, in_use(), flush=True)
    while not os.path.exists(os.path.join(folder, "looked")):
        time.sleep(0.01)
    shrink(held)
    until("detached")
    timed(STEPS)
    print("p50", *(f"{median:.1f}" for median in medians), flush=True)
    print("numbers", " ".join(f"{number:.9g}" for number in numbers), flush=True)
    sys.exit(3)
