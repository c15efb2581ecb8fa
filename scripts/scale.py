#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a disk group costs by its size: memory and time to open it after SIGKILL, bytes written per byte of user data.

Files are sparse: the largest case needs 12 GB of disk. Runs the store alone, without hosts or a network.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

from measure import ROOT, say

MIB = 1 << 20
OPENINGS = 5
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
    options = parser.parse_args(arguments)
    folder = os.path.join(os.path.abspath(options.dir), "scale")
    try:
        lines = openings(options.programs, folder) + [""] + amplification(options.programs, folder, options.buffer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            file.write("# One run of `./dev scale`\n\n" + text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"scale: {failure}")
