#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host is lost for good: when is everything redundant again, and what does the client see.

Host processes and etcd, one volume with two copies that is filled, a client at host1. The host with the other copy is
killed and stays away; after the repair delay the cluster makes its copy again on another host. Once without load, for
the rate of copying beside that of this disk, and once with a client that writes at a steady rate, for its latencies
before and meanwhile. Then the same client while the host with the other copy is emptied, stopped and started, and takes
part again.
"""
import argparse
import os
import subprocess
import sys
import time

from cluster import Failure, in_fresh_folder
from measure import TARGET, fio, fio_job, say, version

MIB = 1 << 20
REPAIR_SECONDS_MAX = 900
FILL_SECONDS_MAX = 1800
PROBE_SECONDS = 4


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="./dev lost-host", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hosts", type=int, default=5, help="hosts of the cluster (%(default)s)")
    parser.add_argument("--mib", type=int, default=1536, help="MiB that are written to the volume (%(default)s)")
    parser.add_argument("--delay", type=int, default=10, help="repair delay, seconds (%(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="the client's 4 KiB writes a second (%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="of the client's load before (%(default)s)")
    parser.add_argument("--dir", default=os.path.join(TARGET, "bench"), help="where files go, below it (%(default)s)")
    parser.add_argument("gabion")
    return parser.parse_args(words)


def disk_rate(folder):
    """Bytes a second of large durable writes to the disk below the folder, by itself."""
    path = os.path.join(folder, "probe")
    what = [f"--filename={path}", "--size=1G", "--ioengine=io_uring", "--direct=1", "--rw=write", "--bs=1M"]
    what += ["--sync=dsync", "--iodepth=8", f"--runtime={PROBE_SECONDS}", "--time_based"]
    job = fio_job(fio(what, folder), folder, PROBE_SECONDS)
    os.unlink(path)
    return job["write"]["bw_bytes"]


def load(given, uri, seconds, folder):
    what = ["--ioengine=nbd", f"--uri={uri}", f"--size={given.mib}M", "--rw=randwrite", "--bs=4k", "--iodepth=4"]
    return fio([*what, f"--rate_iops={given.rate}", "--time_based", f"--runtime={seconds}", "--norandommap"], folder)


def told(job):
    """What a client saw: writes a second, and latencies in milliseconds."""
    write = job["write"]
    of = write["clat_ns"]["percentile"]
    p50, p99, longest = (ns / 1e6 for ns in (of["50.000000"], of["99.000000"], write["clat_ns"]["max"]))
    return f"{write['iops']:.0f} writes/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, longest {longest:.0f} ms"


def lose(cluster, process=None):
    """Kills the host with the other copy; seconds until its copy began to be made, and until it was whole."""
    copies = cluster.ask("volume", "show", "lost")["components"]
    gone = next(copy["host"] for copy in copies if copy["host"] != "host1")
    cluster.run("host", "kill", gone)
    begin, began = time.monotonic(), None
    while time.monotonic() - begin < REPAIR_SECONDS_MAX:
        if process is not None and process.poll() is not None:
            raise Failure("the client ended early")
        copies = cluster.ask("volume", "show", "lost")["components"]
        if began is None and any(copy["state"] == "resyncing" for copy in copies):
            began = time.monotonic() - begin
        if all(copy["host"] != gone and copy["state"] == "active" for copy in copies):
            return gone, began or 0.0, time.monotonic() - begin
        time.sleep(0.1)
    raise Failure(f"not redundant after {REPAIR_SECONDS_MAX} s")


def evacuate(cluster, process):
    """Empties the host with the other copy, stops it and has it take part again; seconds until it was empty."""
    copies = cluster.ask("volume", "show", "lost")["components"]
    host = next(copy["host"] for copy in copies if copy["host"] != "host1")
    begin = time.monotonic()
    cluster.run("host", "maintenance", "enter", host, "--mode", "full-evacuation", "--yes")
    empty = time.monotonic() - begin
    cluster.run("host", "kill", host)
    time.sleep(2)
    cluster.run("host", "start", host)
    cluster.run("host", "maintenance", "exit", host)
    if process.poll() is not None:
        raise Failure("the client ended early")
    return empty


def again(cluster, gone):
    """The lost host is back, and gives up what it had."""
    cluster.run("host", "start", gone)
    cluster.wait_health("lost", "green", 60)
    time.sleep(5)


def measure(cluster, folder, given):
    rate = disk_rate(folder)
    cluster.up("--processes", "--hosts", str(given.hosts), "--sparse")
    cluster.run("cluster", "set", "repair-delay", f"{given.delay}s")
    cluster.run("volume", "create", "lost", "--size", f"{given.mib}MiB")
    uri = cluster.uris("lost")[0]
    say("filling the volume")
    fill = ["--ioengine=nbd", f"--uri={uri}", f"--size={given.mib}M", "--rw=write", "--bs=1M", "--iodepth=8"]
    fio_job(fio(fill, folder), folder, FILL_SECONDS_MAX)
    time.sleep(10)
    print(f"{version()}; {given.hosts} hosts on one disk of {rate / MIB:.0f} MiB/s; {given.mib} MiB")

    say("a host is lost, without load")
    gone, began, done = lose(cluster)
    speed = given.mib / max(done - began, 0.1)
    print(f"without load: copying began after {began:.1f} s, whole after {done:.1f} s: {speed:.0f} MiB/s, "
          f"{speed * MIB / rate:.2f} of the disk (asked: 0.50)")
    again(cluster, gone)

    say("the client's load")
    before = fio_job(load(given, uri, given.seconds, folder), folder, given.seconds)
    print(f"before: {told(before)}")
    seconds = given.delay + given.seconds + 5
    process = load(given, uri, seconds, folder)
    time.sleep(2)
    gone, began, done = lose(cluster, process)
    meanwhile = fio_job(process, folder, seconds)
    print(f"meanwhile: {told(meanwhile)}; copying began after {began:.1f} s, whole after {done:.1f} s "
          f"(asked: p99 at most twice that of before)")
    again(cluster, gone)

    say("a host is emptied, stopped and started")
    process = load(given, uri, seconds, folder)
    time.sleep(2)
    empty = evacuate(cluster, process)
    meanwhile = fio_job(process, folder, seconds)
    print(f"meanwhile: {told(meanwhile)}; the host was empty after {empty:.1f} s")


def main(words):
    given = arguments_of(words)
    with in_fresh_folder(given.dir, "lost-host", given.gabion) as (cluster, folder):
        measure(cluster, folder, given)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"lost-host: {failure}")
