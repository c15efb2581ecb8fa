#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another host comes to write to a volume: how long does that take, by the volume's size.

Host processes and etcd. For each size: the first write of a client that connects, each time through another host; the
same where any host may write; and `gabion volume takeover` from host to host, once of a volume of which nothing was
used and once where each of its parts has an owner. Times are those of whole commands, with what it takes to start one.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

from cluster import Failure, in_fresh_folder
from measure import TARGET, say, version

PART = 255 << 30
SIZES = ["1GiB", "5TiB", "20TiB", "62TiB"]


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="./dev takeover", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="of the volumes (%(default)s)")
    parser.add_argument("--times", type=int, default=9, help="how often each is done (%(default)s)")
    parser.add_argument("--dir", default=os.path.join(TARGET, "bench"), help="where files go, below it (%(default)s)")
    parser.add_argument("gabion")
    return parser.parse_args(words)


def told(seconds):
    """The middle and the most of some times."""
    return f"{1e3 * statistics.median(seconds):.0f} ms (most {1e3 * max(seconds):.0f})"


def write(uri, offsets):
    """Seconds that a client takes that connects, writes a block at each offset, and leaves."""
    orders = [word for at in offsets for word in ("-c", f"write -P 1 {at} 4k")]
    begin = time.monotonic()
    done = subprocess.run(["qemu-io", "-f", "raw", *orders, uri], capture_output=True, text=True, check=True)
    seconds = time.monotonic() - begin
    if done.stdout.count("wrote") != len(offsets):
        raise Failure(f"a write failed: {done.stdout}{done.stderr}")
    return seconds


def first_writes(cluster, volume, times):
    uris = cluster.uris(volume)
    seconds = []
    for number in range(times):
        seconds.append(write(uris[number % len(uris)], [0]))
        time.sleep(0.5)
    return told(seconds)


def take_overs(cluster, volume, times):
    seconds = []
    for number in range(times):
        begin = time.monotonic()
        cluster.run("volume", "takeover", volume, "--host", f"host{1 + number % 3}")
        seconds.append(time.monotonic() - begin)
    # A host that was named keeps the volume for a minute, unless a client of it has come and gone.
    write(cluster.uris(volume)[(times - 1) % 3], [0])
    time.sleep(1)
    return told(seconds)


def measure(cluster, given):
    cluster.up("--processes", "--sparse")
    print(f"{version()}; three host processes and etcd")
    cluster.run("volume", "create", "any", "--size", "1GiB", "--writers", "any")
    print(f"any host writes: first write of a client {first_writes(cluster, 'any', given.times)}")
    for size in given.sizes:
        say(f"a volume of {size}")
        cluster.run("volume", "create", "one", "--size", size)
        fresh = take_overs(cluster, "one", given.times)
        first = first_writes(cluster, "one", given.times)
        parts = range(0, cluster.ask("volume", "show", "one")["size_bytes"], PART)
        write(cluster.uris("one")[0], list(parts))
        used = take_overs(cluster, "one", given.times)
        print(f"{size}, {len(parts)} part(s): first write of a client {first}; "
              f"takeover {fresh} of a fresh volume, {used} where every part has an owner", flush=True)
        cluster.run("volume", "delete", "one", "--now", "--yes")


def main(words):
    given = arguments_of(words)
    with in_fresh_folder(given.dir, "takeover", given.gabion) as (cluster, _):
        measure(cluster, given)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"takeover: {failure}")
