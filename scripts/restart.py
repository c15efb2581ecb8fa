#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a cluster needs after SIGKILL with full write buffers: from `gabion up` to the first I/O.

    restart.py GABION [FOLDER]      files go to FOLDER/restart, by default under target/bench

The load runs until the fullest write buffer holds FULL of its size, or for LOAD_SECONDS_MAX, and is still running
when every host is killed. Prints the times, and exits with 1 when they miss the aim.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

from bench import ROOT, fio, say
from cluster import Cluster, Failure, processes, signal_all

FULL = 0.8
LOAD_SECONDS_MAX = 120
FIRST_IO_SECONDS_MAX = 2.0
RECOVERY_MS_MAX = 300


def fill(cluster, folder, uri):
    """Loads until the buffers are full; returns how full, with fio still running."""
    arguments = ["--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=8G"]
    load = fio([*arguments, "--time_based", f"--runtime={LOAD_SECONDS_MAX + 60}"], folder)
    begin = time.monotonic()
    full = 0.0
    while time.monotonic() - begin < LOAD_SECONDS_MAX and full < FULL:
        time.sleep(0.5)
        if load.poll() is not None:
            raise Failure("fio ended before the buffers were full")
        full = cluster.buffer_fill()
    return full, load


def first_io(uri):
    """One read, by a client that connects anew."""
    subprocess.run(["qemu-io", "-r", "-f", "raw", "-c", "read 0 4k", uri], check=True, stdout=subprocess.DEVNULL)


def measure(cluster, folder):
    sizes = ["--cache-size", "1GiB", "--capacity-size", "12GiB"]
    cluster.up("--processes", *sizes)
    cluster.run("volume", "create", "full", "--size", "8GiB")
    uri = cluster.uris("full")[0]
    say("filling the write buffers")
    full, load = fill(cluster, folder, uri)
    count = signal_all("gabion", cluster.data, signal.SIGKILL)
    load.kill()
    load.communicate()
    say(f"killed {count} processes at a fill of {full:.2f}")
    while processes("gabion", cluster.data):
        time.sleep(0.05)
    begin = time.monotonic()
    cluster.run("up", "--detach", "--processes")
    ready = time.monotonic() - begin
    first_io(uri)
    done = time.monotonic() - begin
    recoveries = [group["recovery_ms"] for group in cluster.ask("status")["groups"] if "recovery_ms" in group]
    print(f"fill {full:.2f}; ready after {ready:.2f} s, first read done after {done:.2f} s "
          f"(aim: {FIRST_IO_SECONDS_MAX});")
    print(f"recovery of the groups: {recoveries or 'not told'} ms (aim: {RECOVERY_MS_MAX} each)")
    return full >= FULL and done <= FIRST_IO_SECONDS_MAX and max(recoveries, default=0) <= RECOVERY_MS_MAX


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    folder = os.path.join(os.path.abspath((arguments + [os.path.join(ROOT, "target", "bench")])[1]), "restart")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster = Cluster(arguments[0], os.path.join(folder, "cluster"))
    try:
        return 0 if measure(cluster, folder) else 1
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"restart: {failure}")
