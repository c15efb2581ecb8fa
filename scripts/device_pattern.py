#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one disk carries of the requests that our disk groups send to it in steady state: no network, no protocol.

Two hosts share the disk. For each client write of 4 KiB each of them has 0.07 commits of the log (60 KiB, durable, one
after the other), 0.93 blocks that are destaged (4 KiB, at random), and reads the log back in pieces of 128 KiB. fio
plays that at a fixed rate of client writes. The result is the highest rate at which everything keeps up.

    device_pattern.py FOLDER [SECONDS]      needs 10 GiB there and a quiet machine; SECONDS of each try (6)
"""
import json
import os
import subprocess
import sys

GIB = 1 << 30
HOSTS = 2
COMMITS = 0.07
COMMIT_BYTES = 60 << 10
BLOCKS = 0.93
READ_BACK = 128 << 10
# Of what was asked, for each job: below it the disk did not keep up.
KEPT_UP = 0.95
RATES = (8_000, 64_000)
# The search ends when it knows the rate to a twentieth.
STEP = 1.05


def jobs(folder, rate):
    """{name: (file, fio options, requests a second)} of all hosts for so many client writes a second."""
    all_jobs = {}
    for host in range(HOSTS):
        log, data = os.path.join(folder, f"log{host}"), os.path.join(folder, f"data{host}")
        back = rate * (COMMITS * COMMIT_BYTES) / READ_BACK
        all_jobs[f"log{host}"] = (log, [f"bs={COMMIT_BYTES}", "rw=write", "sync=dsync", "iodepth=1"], rate * COMMITS)
        all_jobs[f"back{host}"] = (log, [f"bs={READ_BACK}", "rw=read", "iodepth=2"], back)
        all_jobs[f"destage{host}"] = (data, ["bs=4k", "rw=randwrite", "iodepth=12"], rate * BLOCKS)
    return {name: (path, options, max(1, int(iops))) for name, (path, options, iops) in all_jobs.items()}


def job_file(wanted, seconds):
    lines = ["[global]", "ioengine=io_uring", "direct=1", "time_based=1", f"runtime={seconds}", "ramp_time=1"]
    for name, (path, options, iops) in wanted.items():
        lines += [f"[{name}]", f"filename={path}", *options, f"rate_iops={iops}"]
    return "\n".join(lines) + "\n"


def kept_up(wanted, result):
    """(whether every job had its rate, microseconds of a commit) of what fio says."""
    worst, commits = 1.0, []
    for entry in result["jobs"]:
        side = entry["write"] if entry["write"]["iops"] else entry["read"]
        worst = min(worst, side["iops"] / wanted[entry["jobname"]][2])
        if entry["jobname"].startswith("log"):
            commits.append(side["clat_ns"]["mean"] / 1000)
    return worst >= KEPT_UP, sum(commits) / len(commits)


def prepare(folder):
    """Files that are written in full: the first write to a place costs a file system more."""
    os.makedirs(folder, exist_ok=True)
    for host in range(HOSTS):
        for name, gib in ((f"log{host}", 1), (f"data{host}", 4)):
            path = os.path.join(folder, name)
            if os.path.exists(path) and os.path.getsize(path) >= gib * GIB:
                continue
            options = [f"--filename={path}", f"--size={gib}G", "--rw=write", "--bs=1M", "--direct=1", "--iodepth=8"]
            command = ["fio", "--name=fill", "--ioengine=io_uring", *options]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def play(folder, wanted, seconds):
    """What fio says of these jobs."""
    path = os.path.join(folder, "pattern.fio")
    with open(path, "w", encoding="ascii") as file:
        file.write(job_file(wanted, seconds))
    command = ["fio", path, "--output-format=json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout[done.stdout.index("{"):])


def try_rate(folder, rate, seconds):
    wanted = jobs(folder, rate)
    return kept_up(wanted, play(folder, wanted, seconds))


def slowest_ms(result):
    """Milliseconds of the slowest commit of any host."""
    logs = [entry for entry in result["jobs"] if entry["jobname"].startswith("log")]
    return max(entry["write"]["clat_ns"]["max"] for entry in logs) / 1e6


def longest_pause(folder, rate, seconds=60):
    """Milliseconds of the slowest commit at that rate, in the time that a steady case takes."""
    prepare(folder)
    return slowest_ms(play(folder, jobs(folder, rate), seconds))


def highest(attempt, bounds=RATES):
    """The highest rate within `bounds` at which `attempt(rate)` keeps up, and its second answer there; or (0, 0)."""
    best, low, high = (0, 0.0), *bounds
    rate = low
    while rate <= high:
        is_kept, commit_us = attempt(rate)
        if is_kept:
            best, low = (rate, commit_us), rate
        else:
            high = rate / STEP
        if high / low < STEP:
            break
        # Doubles until the first rate that is too high, then halves what is left.
        rate = int(min(low * 2, high) if high == bounds[1] else (low * high) ** 0.5)
        if rate <= best[0]:
            break
    return best


def measure(folder, seconds=6):
    """(client writes a second, microseconds of a commit at that rate) of the disk under `folder`."""
    prepare(folder)
    return highest(lambda rate: try_rate(folder, rate, seconds))


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    rate, commit_us = measure(arguments[0], int(arguments[1]) if len(arguments) == 2 else 6)
    print(f"{rate} client writes/s, a commit takes {commit_us:.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
