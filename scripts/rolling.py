#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every host is stopped and started again, one after the other, under load: what does a client see?

Host processes and etcd, one volume, and a client that writes at a steady rate and reads back what it wrote, with
checksums. As an operator would: a client of the host that is next moves to another one first; then maintenance, stop,
start, wait until the volume is whole, exit. With --kill hosts are killed at once, without maintenance. With --from the
cluster is made by that older release, and each host comes back with this one: a rolling upgrade.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

from cluster import Failure, in_fresh_folder
from measure import TARGET, fio, fio_job, fio_result, say, version

WHOLE_SECONDS_MAX = 120
END_SECONDS_MAX = 30
# A client runs until it is told to end; this is its longest time.
LOAD_SECONDS_MAX = 1800


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="./dev rolling", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hosts", type=int, default=3, help="hosts of the cluster (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="times that each host is restarted (%(default)s)")
    parser.add_argument("--mib", type=int, default=512, help="size of the volume, MiB (%(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="the client's 4 KiB writes a second (%(default)s)")
    parser.add_argument("--down", type=float, default=3, help="seconds that a host stays down (%(default)s)")
    parser.add_argument("--kill", action="store_true", help="without maintenance")
    parser.add_argument("--from", dest="older", metavar="GABION", help="program of an older release to begin with")
    parser.add_argument("--dir", default=os.path.join(TARGET, "bench"), help="where files go, below it (%(default)s)")
    parser.add_argument("gabion")
    return parser.parse_args(words)


class Client:
    """Writes through one host, and reads back what it wrote a little later."""

    def __init__(self, given, uri, folder):
        self.folder = folder
        what = ["--ioengine=nbd", f"--uri={uri}", f"--size={given.mib}M", "--rw=randwrite", "--bs=4k", "--iodepth=8"]
        what += [f"--rate_iops={given.rate}", "--time_based", f"--runtime={LOAD_SECONDS_MAX}"]
        what += ["--verify=crc32c", "--verify_backlog=1024", "--verify_fatal=1"]
        self.process = fio(what, folder)

    def check(self):
        if self.process.poll() is not None:
            fio_job(self.process, self.folder, 0)
            raise Failure("the client ended early")

    def end(self):
        """What it saw: writes, the longest of them in milliseconds, the 99th percentile."""
        self.check()
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=END_SECONDS_MAX)
        # fio that was told to end exits as if it failed; its result says whether there was an error.
        job = fio_result(self.folder, said)
        if job["error"]:
            raise Failure(f"the client saw error {job['error']}")
        write, read = job["write"], job["read"]
        if not read["total_ios"]:
            raise Failure("the client read nothing back")
        longest = max(write["clat_ns"]["max"], read["clat_ns"]["max"]) / 1e6
        return write["total_ios"], longest, write["clat_ns"]["percentile"]["99.000000"] / 1e6


def restart(cluster, client, host, given):
    """Stops one host and starts it again; seconds until it could be stopped, and until the volume was whole."""
    begin = time.monotonic()
    if not given.kill:
        cluster.run("host", "maintenance", "enter", host, "--yes")
    ready = time.monotonic() - begin
    cluster.run("host", "kill", host)
    time.sleep(given.down)
    client.check()
    begin = time.monotonic()
    cluster.run("host", "start", host)
    cluster.wait_health("rolling", "green", WHOLE_SECONDS_MAX)
    whole = time.monotonic() - begin
    if not given.kill:
        cluster.run("host", "maintenance", "exit", host)
    client.check()
    return ready, whole


def put_in_place(program, path):
    """Puts a program where another one may run, as a package manager does."""
    shutil.copy2(program, f"{path}.new")
    os.replace(f"{path}.new", path)


def show_upgrade(cluster):
    """The cluster uses what came with the newer release once an operator says so."""
    try:
        cluster.run("volume", "label", "rolling", "team=db")
        raise Failure("a label was taken before the cluster was upgraded")
    except Failure as failure:
        if "gabion cluster upgrade" not in str(failure):
            raise
    report = cluster.ask("cluster", "upgrade")
    cluster.run("volume", "label", "rolling", "team=db")
    print(f"the cluster was at level {report['from']} and is at level {report['to']}, and uses it")


def measure(cluster, folder, given):
    cluster.up("--processes", "--hosts", str(given.hosts), "--sparse")
    cluster.run("volume", "create", "rolling", "--size", f"{given.mib}MiB")
    uris = cluster.uris("rolling")
    print(f"{version()}; {given.hosts} hosts, {given.rate} writes/s of 4 KiB, each read back")
    hosts = [f"host{number + 1}" for number in range(given.hosts)]
    at, client = given.hosts - 1, None
    seen = []
    begin = time.monotonic()
    for number in range(given.hosts * given.rounds):
        index = number % given.hosts
        if client is None or at == index:
            if client is not None:
                seen.append(client.end())
            at = (index - 1) % given.hosts
            client = Client(given, uris[at], folder)
            time.sleep(2)
        if given.older:
            put_in_place(given.gabion, cluster.gabion)
        say(f"{hosts[index]} is restarted, the client is at {hosts[at]}")
        ready, whole = restart(cluster, client, hosts[index], given)
        print(f"{hosts[index]}: could be stopped after {ready:.1f} s, whole {whole:.1f} s after its start")
    seen.append(client.end())
    if given.older:
        show_upgrade(cluster)
    writes, longest, late = (list(column) for column in zip(*seen))
    print(f"{sum(writes)} writes in {time.monotonic() - begin:.0f} s, no error, all read back as written; "
          f"longest wait {max(longest):.0f} ms, p99 {max(late):.1f} ms")


def main(words):
    given = arguments_of(words)
    with in_fresh_folder(given.dir, "rolling", given.gabion) as (cluster, folder):
        if given.older:
            cluster.gabion = os.path.join(folder, "gabion")
            put_in_place(given.older, cluster.gabion)
        measure(cluster, folder, given)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"rolling: {failure}")
