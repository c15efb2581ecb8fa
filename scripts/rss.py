#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the hosts under a mixed load over time: what each process holds, minute by minute.

Three hosts, one volume. Bursts of large random writes at depth come and go over a steady load of small requests;
between bursts memory must fall back to what is in use. The report is the resident memory of each process before the
first burst, at most, and after each burst, and whether it grows from burst to burst.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from bench import ROOT, fio, say
from cluster import Cluster, Failure, processes

MIB = 1 << 20
BURST_SECONDS = 20
# Between two bursts: the buffer drains and what is free goes back.
REST_SECONDS = 40
SAMPLE_SECONDS = 1.0
# The median of the last quarter's rests over that of the first quarter's.
GROWTH_MAX = 1.15
# Bursts before that is judged.
BURSTS_MIN = 8


def resident(folder):
    """Bytes that each process of the cluster holds, by pid."""
    found = {}
    for pid in processes("gabion", folder):
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        found[pid] = sum(int(words[1]) << 10 for words in lines if words[0] == "Rss:")
    return found


def load(uri, folder, seconds, *options):
    arguments = ["--ioengine=nbd", f"--uri={uri}", "--size=4G", "--time_based", f"--runtime={seconds}"]
    return fio([*arguments, *options], folder)


def sample(folder, until, job, samples):
    """Takes samples until then, or until the job ends where there is no time."""
    while (until is None and job.poll() is None) or (until is not None and time.monotonic() < until):
        for pid, size in resident(folder).items():
            samples.setdefault(pid, []).append((time.monotonic(), size))
        time.sleep(SAMPLE_SECONDS)


def measure(cluster, folder, minutes):
    cluster.up("--processes", "--cache-size", "1GiB", "--capacity-size", "8GiB")
    cluster.run("volume", "create", "rss", "--size", "4GiB")
    uri = cluster.uris("rss")[0]
    end = time.monotonic() + minutes * 60
    steady = load(uri, folder, minutes * 60 + 60, "--rw=randrw", "--bs=4k", "--iodepth=4", "--rate_iops=500")
    begun, samples, rests = time.monotonic(), {}, []
    try:
        sample(cluster.data, time.monotonic() + REST_SECONDS / 2, steady, samples)
        while time.monotonic() < end:
            burst = load(uri, folder, BURST_SECONDS, "--rw=randwrite", "--bssplit=64k/40:1m/60", "--iodepth=64")
            sample(cluster.data, None, burst, samples)
            quiet = time.monotonic() + REST_SECONDS
            sample(cluster.data, quiet, steady, samples)
            rests.append((quiet - REST_SECONDS / 4, quiet))
            most = max(sizes[-1][1] for sizes in samples.values())
            passed = (time.monotonic() - begun) / 60
            say(f"rss: {passed:.0f} of {minutes:g} min, the largest holds {most / MIB:.0f} MiB")
            if steady.poll() is not None:
                raise Failure("the steady load ended early")
    finally:
        steady.kill()
        steady.communicate()
    return begun, samples, rests


def report(begun, samples, rests):
    """One line per process; whether none grew."""
    lines = ["| process | before | at most | after the first burst | after the last | grows |",
             "|---|---|---|---|---|---|"]
    is_good = True
    for pid, sizes in sorted(samples.items()):
        calm = [[size for at, size in sizes if start <= at <= end] for start, end in rests]
        calm = [statistics.median(each) for each in calm if each]
        if len(calm) < 2:
            continue
        quarter = max(1, len(calm) // 4)
        growth = statistics.median(calm[-quarter:]) / statistics.median(calm[:quarter])
        # Index and history fill up first: with few bursts growth says nothing yet.
        is_good &= growth <= GROWTH_MAX or len(calm) < BURSTS_MIN
        before = statistics.median(size for at, size in sizes if at <= begun + REST_SECONDS / 2)
        most = max(size for _, size in sizes)
        figures = " | ".join(f"{size / MIB:.0f} MiB" for size in (before, most, calm[0], calm[-1]))
        lines.append(f"| {pid} | {figures} | {growth:.2f} |")
    return lines, is_good


def main(arguments):
    parser = argparse.ArgumentParser(prog="./dev rss", description=__doc__.split("\n", maxsplit=1)[0],
                                     epilog="example: ./dev rss --minutes 60")
    parser.add_argument("gabion", help="the program")
    parser.add_argument("--minutes", type=float, default=5, help="how long (5); an hour shows what creeps")
    parser.add_argument("--dir", default=os.path.join(ROOT, "target", "bench"), help="where all files go")
    parser.add_argument("--save", metavar="FILE", help="write every sample as JSON: pid, seconds, bytes")
    options = parser.parse_args(arguments)
    folder = os.path.join(os.path.abspath(options.dir), "rss")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster = Cluster(options.gabion, os.path.join(folder, "cluster"))
    try:
        begun, samples, rests = measure(cluster, folder, options.minutes)
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    lines, is_good = report(begun, samples, rests)
    print("\n".join(lines))
    print(f"aim: after the last bursts at most {GROWTH_MAX} of what was held after the first")
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            all_samples = [[pid, round(at - begun, 1), size] for pid, sizes in samples.items() for at, size in sizes]
            json.dump(all_samples, file)
    return 0 if is_good else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"rss: {failure}")
