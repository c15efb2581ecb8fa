#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a disk group costs by its size: memory and time to open, list, scrub, delete, free and close; bytes written.

Opening is also measured after SIGKILL with a full write buffer. Fails where something grows faster than its size.
Files are sparse, but for what a group keeps of its chunks (2 GB per TiB): the largest case needs 18 GB of disk.
Runs the store alone, without hosts or a network.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

from measure import ROOT, say
from requests_curve import requests_curve

MIB = 1 << 20
OPENINGS = 5
# Worse than linear, with room for what a busy machine adds; below NOISE_MS nothing is said.
POWER_MAX = 1.2
NOISE_MS = 50
# Capacity in GiB, percent of it allocated, write buffer in MiB, percent of it filled.
CASES = [(64, 0, 64, 0), (4096, 50, 64, 0), (4096, 100, 64, 0), (64, 0, 1024, 95), (64, 0, 4096, 95)]


def run(*command):
    """The lines of JSON that a program prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def opening(programs, folder, case):
    """Figures of one case: the middle of several openings."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    program = os.path.join(programs, "scale")
    run(program, "make", folder, *map(str, case))
    opened = [run(program, "open", folder)[0] for _ in range(OPENINGS)]
    shutil.rmtree(folder)
    return {name: statistics.median(each[name] for each in opened) for name in opened[0]}


def openings(programs, folder):
    lines = ["| capacity | allocated | buffer | filled | entries | opened in | memory | at most | of it by size |",
             "|---|---|---|---|---|---|---|---|---|"]
    base = None
    for case in CASES:
        say(f"scale: capacity {case[0]} GiB, {case[1]} % allocated; buffer {case[2]} MiB, {case[3]} % full")
        found = opening(programs, folder, case)
        base = base or found["resident"]
        more = (found["resident"] - base) / MIB
        tib, gib = case[0] * case[1] / 100 / 1024, case[2] * case[3] / 100 / 1024
        by_buffer = f"{more / gib:.0f} MiB per GiB filled" if gib else "-"
        each = f"{more / tib:.0f} MiB per TiB allocated" if tib else by_buffer
        lines.append(f"| {case[0]} GiB | {case[1]} % | {case[2]} MiB | {found['buffer_fill'] * 100:.0f} % |"
                     f" {found['entries']:,.0f} | {found['ms']:.0f} ms | {found['resident'] / MIB:.0f} MiB |"
                     f" {found['peak'] / MIB:.0f} MiB | {each} |")
    return lines


def exponent(sizes, costs):
    """How cost grows with size: 1 is linear. By least squares over the logarithms."""
    pairs = [(math.log(size), math.log(cost)) for size, cost in zip(sizes, costs) if cost > 0]
    if len(pairs) < 2:
        return 0.0
    middle, level = (statistics.fmean(each) for each in zip(*pairs))
    square = sum((x - middle) ** 2 for x, _ in pairs)
    return sum((x - middle) * (y - level) for x, y in pairs) / square if square else 0.0


def curve(programs, folder, what, sizes, commands):
    """Each step of the last of the commands for a size, over all sizes."""
    program = os.path.join(programs, "scale")
    steps = {}
    for size in sizes:
        say(f"scale: {what} {size}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for command in commands(size):
            found = run(program, command[0], folder, *map(str, command[1:]))
        for each in found:
            steps.setdefault(each["step"], []).append(each)
    shutil.rmtree(folder)
    lines = [f"| {what} | " + " | ".join(map(str, sizes)) + " | grows as size to the power of | most steps in a turn |",
             "|---" * (len(sizes) + 3) + "|"]
    is_good = True
    for step, found in steps.items():
        power = exponent(sizes, [each["ms"] for each in found])
        is_slow = max(each["ms"] for each in found) >= NOISE_MS
        is_good &= power <= POWER_MAX or not is_slow
        cells = " | ".join(f"{each['ms']:,.0f} ms" for each in found)
        turn = max(each["turn_steps"] for each in found)
        lines.append(f"| {step} | {cells} | {f'{power:.2f}' if is_slow else '-'} | {turn:,} |")
    peaks = [found[-1]["peak"] for found in zip(*steps.values())]
    peaks = [max(each[at]["peak"] for each in steps.values()) for at in range(len(peaks))]
    power = exponent(sizes, peaks)
    is_good &= power <= POWER_MAX
    lines.append("| memory at most | " + " | ".join(f"{peak / MIB:,.0f} MiB" for peak in peaks) + f" | {power:.2f} | |")
    return lines, is_good


def curves(programs, folder, is_large):
    """What is done with a group, by its size in each direction."""
    wide = [1, 2, 3, 4, 5]
    cases = [
        ("component, GiB, all allocated", [32, 64, 128, 255],
         lambda size: [("dense", 1, 1, size, 100, 64, size), ("live", 1, 1)]),
        ("empty write buffer, GiB (sparse)", [75, 150, 300, 600],
         lambda size: [("dense", 1, 1, 4, 100, size << 10, 4), ("live", 1, 1)]),
        ("capacity of a group, GiB, half of it allocated", [512, 1024, 2048, 4096],
         lambda size: [("dense", 1, 1, size, 50, 64, 64), ("live", 1, 1)]),
        ("components in a group", [125, 250, 500, 1000], lambda size: [("table", size)]),
        ("groups of seven devices of 256 GiB", wide,
         lambda size: [("dense", size, 7, 256, 90, 64, 64), ("live", size, 7)]),
    ]
    if is_large:
        # What a host holds of one volume of 62 TiB: 249 components of 255 GiB.
        cases.append(("volume, TiB, in five groups of seven devices", [8, 16, 31, 62],
                      lambda size: [("dense", 5, 7, -(-size * 1024 // 35) + 8, 99, 64, 255), ("live", 5, 7)]))
    lines, is_good = [], True
    for what, sizes, commands in cases:
        more, is_fine = curve(programs, folder, what, sizes, commands)
        lines += more + [""]
        is_good &= is_fine
    return lines, is_good


def amplification(programs, folder, buffer):
    say(f"scale: write amplification with a buffer of {buffer} MiB")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    found = run(os.path.join(programs, "amplify"), folder, str(buffer))
    shutil.rmtree(folder)
    lines = [f"| load, write buffer of {buffer} MiB | to cache | to capacity | writes/s |", "|---|---|---|---|"]
    for each in found:
        lines.append(f"| {each['load']} | {each['cache']:.2f} | {each['capacity']:.2f} |"
                     f" {each['writes_per_second']:,} |")
    return lines


def main(arguments):
    parser = argparse.ArgumentParser(prog="./dev scale", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default=os.path.join(ROOT, "target", "bench"), help="where all files go")
    parser.add_argument("--buffer", type=int, default=256, metavar="MIB", help="of write amplification (256)")
    parser.add_argument("--programs", default=os.path.join(ROOT, "target", "release", "examples"))
    parser.add_argument("--save", metavar="FILE", help="write the tables as Markdown as well")
    parser.add_argument("--curves", action="store_true", help="only what is done with groups, over their sizes")
    parser.add_argument("--large", action="store_true", help="also a volume of 62 TiB: 140 GB of disk, 3 GB of memory")
    parser.add_argument("--requests", action="store_true", help="only device requests per destaged block, simulated")
    options = parser.parse_args(arguments)
    if options.requests:
        requests_curve(options.programs, options.save)
        return
    folder = os.path.join(os.path.abspath(options.dir), "scale")
    try:
        lines, is_good = curves(options.programs, folder, options.large)
        if not options.curves:
            lines += openings(options.programs, folder) + [""]
            lines += amplification(options.programs, folder, options.buffer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            file.write("# One run of `./dev scale`\n\n" + text)
    if not is_good:
        sys.exit("scale: something grows faster than its size")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"scale: {failure}")
