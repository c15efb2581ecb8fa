#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A large volume is deleted while a verified load runs on another: how long does that load stand still.

Three host processes and etcd. Every chunk of 1 MiB of the large volume is allocated by a write of 4 KiB; files are
sparse, so that it takes little space. The verifier writes and reads the other volume, on the same disk groups, before,
during and after the deletion, which ends when its space is free and the devices were told. `--devices loop` puts the
disk groups on block devices with discard (loop devices over sparse files; needs root).

Beside all this one file on the same file system is written, which shows what that file system makes others wait.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict

from beside import Beside
from cluster import Cluster, Failure
from measure import TARGET, fio, fio_job, say, version
from timeline import Phase, latencies

MIB = 1 << 20
SCRIPTS = os.path.dirname(os.path.abspath(__file__))
UNITS = {"M": 20, "G": 30, "T": 40}
# The longest pause that is asked for.
PAUSE_MS_MAX = 50
LOAD_SECONDS_MAX = 24 * 3600
ALLOCATE_SECONDS_MAX = 3600
DRAIN_SECONDS_MAX = 1800
DELETE_SECONDS_MAX = 3600
# What the load's volume may take meanwhile, and what hosts keep for themselves.
OTHERS_BYTES_MAX = 256 * MIB
# Of the fullest write buffer: what is left is the load's.
DRAINED = 0.1
# The devices' space counts as given back where it did not change for so long.
STILL_SECONDS = 3


def bytes_of(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([MGT])(?:iB)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 64G or 1T")
    return int(float(found[1]) * (1 << UNITS[found[2]])) // MIB * MIB


class Devices:
    """The files under the disk groups, and loop devices over them if asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.loops = []
        self.files = []

    def loop(self, name, size):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.truncate(size)
        command = ["losetup", "--direct-io=on", "--find", "--show", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"no loop device can be made here: {done.stderr.strip()}")
        self.loops.append(done.stdout.strip())
        if "capacity" in name:
            self.files.append(path)
        return self.loops[-1]

    def taken(self):
        """Bytes that the files of the capacity devices take; those of cache devices fill up with the load's log."""
        return sum(os.stat(path).st_blocks * 512 for path in self.files)

    def close(self):
        for device in self.loops:
            subprocess.run(["losetup", "--detach", device], check=False)
        self.loops = []


def make_cluster(cluster, devices, options):
    room = options.size + options.size // 8 + (4 << 30)
    small = ["--cache-size", "256MiB", "--capacity-size", "1GiB"]
    large = ["--cache-size", options.cache_size, "--capacity-size", f"{room >> 20}MiB"]
    cluster.up("--processes", "--sparse", "--yes", *(small if options.devices == "loop" else large))
    if options.devices == "files":
        devices.files = [device["path"] for device in cluster.ask("disk", "list") if device["role"] == "capacity"]
        return
    for host in ("host1", "host2", "host3"):
        cache = devices.loop(f"{host}-cache.img", bytes_of(options.cache_size))
        capacity = devices.loop(f"{host}-capacity.img", room)
        cluster.run("group", "create", "--host", host, "--cache", cache, "--capacity", capacity, "--ignore-device-kind")


def used(cluster):
    """Of all groups: bytes of chunks on capacity, of those that are still in the write buffer, and on their way out."""
    groups = cluster.ask("group", "list")
    spaces = [device["space"] for group in groups for device in group["devices"] if device["space"]]
    return [sum(space[kind] for space in spaces) for kind in ("allocated_bytes", "reserved_bytes", "freeing_bytes")]


def held(cluster):
    """Bytes of chunks on capacity or due there."""
    return sum(used(cluster)[:2])


def allocate(cluster, folder, size):
    """One write in each chunk."""
    arguments = ["--ioengine=nbd", f"--uri={cluster.uris('large')[0]}", "--rw=write:1020k", "--bs=4k", f"--size={size}"]
    job = fio([*arguments, f"--io_size={size // 256}", "--iodepth=32", "--thread"], folder)
    fio_job(job, folder, ALLOCATE_SECONDS_MAX)
    end = time.monotonic() + DRAIN_SECONDS_MAX
    while cluster.buffer_fill() > DRAINED or held(cluster) < 2 * size:
        if time.monotonic() > end:
            raise Failure(f"{held(cluster) >> 20} MiB are allocated, fill {cluster.buffer_fill():.2f}: not in time")
        time.sleep(0.5)
    # A nearly empty buffer is destaged at leisure: what is left in it has no place on capacity yet.
    return used(cluster)[0]


def check_runs(load):
    """The load is there to the end; where it is not, it says why."""
    if load.poll() is not None:
        said, complained = load.communicate()
        raise Failure(f"the verified load ended: {said.strip()} {complained.strip()}")


def delete(cluster, devices, load, size, result):
    """Deletes the volume and waits until its space is free; the steps' seconds go to `result`."""
    begin, before = time.monotonic(), held(cluster)
    cluster.run("volume", "delete", "large", "--now", "--yes")
    result["command_seconds"] = round(time.monotonic() - begin, 2)
    result["free_seconds"] = None
    taken, changed = devices.taken(), time.monotonic()
    while time.monotonic() - begin < DELETE_SECONDS_MAX:
        allocated, reserved, freeing = used(cluster)
        check_runs(load)
        is_free = allocated + reserved <= before - 2 * size + OTHERS_BYTES_MAX and freeing == 0
        if result["free_seconds"] is None and is_free:
            result["free_seconds"] = round(time.monotonic() - begin, 2)
        now = devices.taken()
        # The load takes some and gives some.
        if abs(now - taken) > 16 * MIB:
            taken, changed = now, time.monotonic()
        if result["free_seconds"] is not None and time.monotonic() - changed > STILL_SECONDS:
            result["discarded_seconds"] = round(changed - begin, 2)
            return
        time.sleep(0.5)
    raise Failure(f"the space of the deleted volume is not free after {DELETE_SECONDS_MAX} s")


def start_verifier(cluster, folder):
    command = [os.path.join(SCRIPTS, "verifier.py"), "load", "--uri", cluster.uris("steady")[0]]
    command += ["--state", os.path.join(folder, "state"), "--log", os.path.join(folder, "log")]
    command += ["--seconds", str(LOAD_SECONDS_MAX), "--depth", "4"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_log(path):
    with open(path, encoding="ascii") as file:
        return sorted(tuple(float(field) for field in line.split(",")) for line in file)


def phases_of(cluster, devices, folder, options, result):
    load = start_verifier(cluster, folder)
    beside = Beside(os.path.join(folder, "beside"))
    beside.start()
    phases = []

    def begin(name):
        if phases:
            phases[-1].end = time.time()
        phases.append(Phase(name, time.time()))
        say(f"delete-pause: {name}")

    try:
        time.sleep(2)
        begin("before")
        time.sleep(options.seconds)
        result["taken_before"] = devices.taken()
        begin("deleting")
        delete(cluster, devices, load, options.size, result)
        result["taken_after"] = devices.taken()
        begin("after")
        time.sleep(options.seconds)
        phases[-1].end = time.time()
        result["turns"] = cluster.ask("status")["turns"]
        load.send_signal(signal.SIGTERM)
        _, said = load.communicate(timeout=120)
        if load.returncode != 0:
            raise Failure(f"the verified load failed: {said.strip()}")
    finally:
        if load.poll() is None:
            load.kill()
            load.communicate()
        others = beside.end()
    result["beside_max_ms"] = {
        phase.name: round(seen.max_ms, 1) for phase in phases if (seen := latencies(others, phase)) is not None
    }
    requests = read_log(os.path.join(folder, "log"))
    return {phase.name: (phase, latencies(requests, phase)) for phase in phases}


def check(cluster, folder):
    """The load's volume, whole, at another host."""
    command = [os.path.join(SCRIPTS, "verifier.py"), "check", "--uri", cluster.uris("steady")[1]]
    command += ["--state", os.path.join(folder, "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"the load's volume is not what was written: {done.stderr.strip()}")


def worst_ms(seen):
    """The longest that nothing was answered, or that one request took."""
    return max(seen.pause_ms, seen.max_ms)


def text_of(phases, result, options):
    lines = ["| phase | seconds | requests/s | p50, ms | p99, ms | longest request, ms | longest pause, ms | "
             "a file beside, longest, ms |", "|" + "---|" * 8]
    for phase, seen in phases.values():
        lines.append(f"| {phase.name} | {phase.end - phase.begin:.1f} | {seen.per_second:,.0f} | {seen.p50_ms:.2f} | "
                     f"{seen.p99_ms:.1f} | {seen.max_ms:.1f} | {seen.pause_ms:.1f} | "
                     f"{result['beside_max_ms'].get(phase.name, '-')} |")
    turns = "; ".join(f"{turn['host']} {turn['long']}, longest {turn['longest_ms']:.0f} ms "
                      f"({turn.get('longest_task', 'none')})" for turn in result["turns"])
    verdict = "yes" if result["is_good"] else "NO"
    return "\n".join([
        *lines, "",
        f"{options.size / MIB / 1024:,.1f} GiB in chunks of 1 MiB, on two hosts (of both "
        f"{result['allocated_bytes'] >> 30:,} GiB on capacity, the rest in write buffers), deleted: the command took "
        f"{result['command_seconds']} s, all space was free after {result['free_seconds']} s and given back to the "
        f"devices after {result['discarded_seconds']} s; the capacity devices took {result['taken_before'] / MIB:,.0f} "
        f"MiB before and {result['taken_after'] / MIB:,.0f} MiB after.",
        f"Longest pause or request while it was deleted: {result['worst_ms']:.1f} ms (asked: below {PAUSE_MS_MAX}): "
        f"{verdict}. What was written is right.",
        f"Turns longer than 20 ms: {turns}.", "",
        f"{version()}. Three host processes and etcd, devices: {options.devices}, all over one disk; the verifier at "
        "depth 4, a quarter reads, on a volume of 64 MiB."])


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev delete-pause", description=__doc__.split("\n", maxsplit=1)[0],
        epilog="example: ./dev delete-pause --size 1T --devices loop")
    parser.add_argument("gabion", help="the program")
    parser.add_argument("--size", type=bytes_of, default="1T", help="of the volume that is deleted (1T)")
    parser.add_argument("--devices", choices=["files", "loop"], default="files", help="under the disk groups (files)")
    parser.add_argument("--seconds", type=float, default=20, help="of load before and after (20)")
    parser.add_argument("--cache-size", default="1G", help="of each host (1G)")
    parser.add_argument("--dir", default=os.path.join(TARGET, "bench"), help="where all files go")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    bytes_of(options.cache_size)
    if options.seconds < 1:
        parser.error("--seconds is at least 1")
    return options


def measure(options, folder, cluster, devices):
    make_cluster(cluster, devices, options)
    cluster.run("volume", "create", "large", "--size", f"{options.size >> 20}MiB")
    cluster.run("volume", "create", "steady", "--size", "64MiB")
    result = {"size_bytes": options.size, "devices": options.devices}
    begin = time.monotonic()
    result["allocated_bytes"] = allocate(cluster, folder, options.size)
    say(f"delete-pause: {options.size >> 20} chunks written in {time.monotonic() - begin:.0f} s, "
        f"{result['allocated_bytes'] >> 20} MiB allocated on capacity, {devices.taken() >> 20} MiB of disk taken")
    phases = phases_of(cluster, devices, folder, options, result)
    check(cluster, folder)
    if any(seen is None for _, seen in phases.values()):
        raise Failure("the load had no answer in a whole phase")
    result["worst_ms"] = round(worst_ms(phases["deleting"][1]), 1)
    result["is_good"] = result["worst_ms"] < PAUSE_MS_MAX
    return phases, result


def main(arguments):
    options = options_of(arguments)
    folder = os.path.join(os.path.abspath(options.dir), "delete-pause")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster, devices = Cluster(options.gabion, os.path.join(folder, "cluster")), Devices(folder)
    try:
        phases, result = measure(options, folder, cluster, devices)
    finally:
        cluster.down()
        devices.close()
        shutil.rmtree(folder, ignore_errors=True)
    if options.output == "json":
        print(json.dumps({**result, "phases": {name: asdict(seen) for name, (_, seen) in phases.items()}}, indent=2))
    else:
        print(text_of(phases, result, options))
    return 0 if result["is_good"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"delete-pause: {failure}")
