#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that comes back slow, under load: does it catch up, what does the owner hold for it, what does the client see.

Three host processes and etcd, one volume that is full, a client at host1 that writes at a steady rate. Another host
that has a copy is killed, and comes back with devices that are slower by a factor (`tuning.late`): latency and rate of
this disk are measured first, then multiplied and divided. Phases: before (all fine), away (the host is dead), resync
(it is back, slow, until its copy is active), after (it is slow, and each write waits for it too). Then the next load,
on a volume and a host as good as new.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field

from cluster import Cluster, Failure
from measure import FIO_SECONDS_EXTRA_MAX, ROOT, TARGET, fio, fio_job, say, version
from plot import Line, Panel, draw, script
from timeline import Memory, Phase, by_second, fio_requests, host_pids, latencies, phase_marks

MIB = 1 << 20
# What the owner's process may hold at most.
OWNER_MAX = 256 * MIB
PROBE_SECONDS = 3
# fio ends by a signal, at the end of the last phase.
RUN_SECONDS_MAX = 24 * 3600
GREEN_SECONDS_MAX = 600
FILL_SECONDS_MAX = 1800
# Of the disk, for whoever else writes to it.
ROOM_LEFT = 5 << 30
SIZE_OF = {"4k": 4096, "1m": MIB}


@dataclass
class Result:
    """One load."""

    name: str
    per_second: float
    resync_seconds: float = 0.0
    owner: str = ""
    slow: str = ""
    phases: list = field(default_factory=list)
    seen: dict = field(default_factory=dict)
    memory: Memory = None
    requests: list = field(default_factory=list)
    # (second, bytes that the copy lacks)
    left: list = field(default_factory=list)
    turns: list = field(default_factory=list)

    @property
    def is_good(self):
        return self.memory.peaks.get(self.owner, 0) < OWNER_MAX


def probe(folder):
    """(seconds of a 4 KiB write, bytes/s of large ones) of the disk below the folder, by itself."""
    path = os.path.join(folder, "probe")
    common = [f"--filename={path}", "--size=256M", "--ioengine=io_uring", "--direct=1"]
    common += ["--time_based", f"--runtime={PROBE_SECONDS}"]
    found = []
    # Filled before, so that the file system's own work is no part of it. A flush is an operation of its own.
    for special in (["--rw=write", "--bs=1M", "--iodepth=4"], ["--rw=randwrite", "--bs=4k", "--iodepth=1"]):
        job = fio_job(fio([*common, *special], folder), folder, PROBE_SECONDS)
        found.append(job["write"])
    os.unlink(path)
    # The median: beside other work the mean says more of that.
    return found[1]["clat_ns"]["percentile"]["50.000000"] / 1e9, found[0]["bw_bytes"]


def slow_down(config, latency_us, bytes_per_second):
    """Makes the host's devices late from its next start on; as before where no latency is given."""
    with open(config, encoding="utf-8") as file:
        text = re.sub(r"\n\[tuning\.late\]\n(\w+ = \d+\n)*", "", file.read())
    if latency_us is not None:
        text += f"\n[tuning.late]\nlatency_us = {latency_us}\nbytes_per_second = {bytes_per_second}\n"
    with open(config, "w", encoding="utf-8") as file:
        file.write(text)


class Follower(threading.Thread):
    """Asks every second how much the copy on a host lacks, and notes when it is active."""

    def __init__(self, cluster, volume, host):
        super().__init__(daemon=True)
        self.cluster, self.volume, self.host = cluster, volume, host
        self.left, self.state = [], None
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.wait(1.0):
            try:
                copies = self.cluster.ask("volume", "show", self.volume)["components"]
            except (Failure, OSError, ValueError, subprocess.SubprocessError):
                continue
            mine = [copy for copy in copies if copy["host"] == self.host]
            self.state = "active" if all(copy["state"] == "active" for copy in mine) else mine[0]["state"]
            self.left.append((time.time(), sum(copy["resync_bytes_left"] for copy in mine)))

    def end(self):
        self.is_over.set()
        self.join()

    def wait(self, is_right, what, seconds, load):
        end = time.monotonic() + seconds
        while not is_right(self.state):
            if time.monotonic() > end:
                raise Failure(f"the copy on {self.host} is {self.state} and not {what} after {seconds:.0f} s")
            sleep(0.2, load)


def sleep(seconds, load):
    """Waits; the load must go on meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if load.poll() is not None:
            raise Failure(f"the client ended early: {(load.stderr.read() or '').strip()[-300:]}")
        time.sleep(min(0.1, max(0.0, end - time.monotonic())))


def start_load(result, uri, size, folder):
    log = os.path.join(folder, result.name)
    arguments = ["--ioengine=nbd", f"--uri={uri}", f"--size={size}", "--rw=randwrite", f"--bs={result.name}"]
    arguments += ["--iodepth=32", f"--rate_iops={result.per_second:g}", "--time_based", f"--runtime={RUN_SECONDS_MAX}"]
    # A thread: a process of fio's own would outlive fio when that is killed.
    return fio([*arguments, f"--write_lat_log={log}", "--log_unix_epoch=1", "--norandommap", "--thread"], folder)


def fill(uri, size, folder):
    """Every chunk has its place: of a chunk that only the write buffer holds, a killed host gets all again."""
    arguments = ["--ioengine=nbd", f"--uri={uri}", f"--size={size}", "--rw=write", "--bs=1M", "--iodepth=8"]
    fio_job(fio([*arguments, "--thread"], folder), folder, FILL_SECONDS_MAX)


def check_room(options, folder):
    """Two copies of the volume and three write buffers; a disk that is full stops more than this run."""
    need = 2 * cluster_size(options.size) + 3 * cluster_size(options.cache_size) + ROOM_LEFT
    free = shutil.disk_usage(folder).free
    if free < need:
        raise Failure(f"{folder} has {free >> 30} GiB free, this takes {need >> 30} at most: use a smaller --size")


def cluster_size(text):
    """Bytes of a size as `gabion` takes it, in binary units."""
    number, unit = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE).groups()
    return int(number) << 10 * " KMGT".index(unit.upper() or " ")


def end_load(load, folder):
    """fio's own word on whether a request failed; it writes its logs at its end."""
    load.send_signal(signal.SIGINT)
    try:
        load.communicate(timeout=FIO_SECONDS_EXTRA_MAX)
    except subprocess.TimeoutExpired:
        load.kill()
        load.communicate()
        raise Failure("fio did not end") from None
    with open(os.path.join(folder, "fio.json"), encoding="utf-8") as file:
        text = file.read()
    error = json.loads(text[text.index("{"):])["jobs"][0]["error"]
    if error:
        raise Failure(f"a request of the client failed with error {error}")


def run_phases(cluster, result, load, options, late):
    """Before, away, resync, after."""
    follower = Follower(cluster, result.name, result.slow)
    follower.start()

    def begin(name):
        if result.phases:
            result.phases[-1].end = time.time()
        result.phases.append(Phase(name, time.time()))
        say(f"slow-joiner, {result.name}: {name}")

    try:
        begin("before")
        sleep(options.seconds, load)
        begin("away")
        cluster.run("host", "kill", result.slow)
        slow_down(os.path.join(cluster.data, result.slow, "host.toml"), *late)
        sleep(options.away, load)
        follower.wait(lambda state: state != "active", "absent", GREEN_SECONDS_MAX, load)
        begin("resync")
        cluster.run("host", "start", result.slow)
        follower.wait(lambda state: state == "active", "active", options.resync_max, load)
        result.resync_seconds = time.time() - result.phases[-1].begin
        begin("after")
        sleep(options.seconds, load)
        result.phases[-1].end = time.time()
    finally:
        follower.end()
        result.left = follower.left


def run(cluster, result, folder, options, late):
    cluster.run("volume", "create", result.name, "--size", options.size)
    shown = cluster.ask("volume", "show", result.name)
    hosts = sorted({copy["host"] for copy in shown["components"]})
    # The client's host owns the volume.
    result.owner, result.slow = "host1", [host for host in hosts if host != "host1"][0]
    result.memory = Memory(cluster.data)
    result.memory.start()
    say(f"slow-joiner, {result.name}: the volume is filled")
    fill(shown["nbd"][0], shown["size_bytes"], folder)
    load = start_load(result, shown["nbd"][0], shown["size_bytes"], folder)
    try:
        sleep(2, load)
        run_phases(cluster, result, load, options, late)
        result.turns = cluster.ask("status")["turns"]
        end_load(load, folder)
    finally:
        result.memory.end()
        if load.poll() is None:
            load.kill()
            load.communicate()
    log = os.path.join(folder, f"{result.name}_clat.1.log")
    result.requests = fio_requests(log)
    for kind in ("clat", "lat", "slat"):
        os.unlink(os.path.join(folder, f"{result.name}_{kind}.1.log"))
    result.seen = {phase.name: latencies(result.requests, phase) for phase in result.phases}
    # The next load begins with a host as fast as the others.
    cluster.run("host", "kill", result.slow)
    slow_down(os.path.join(cluster.data, result.slow, "host.toml"), None, None)
    cluster.run("host", "start", result.slow)
    cluster.wait_health(result.name, "green", GREEN_SECONDS_MAX)
    cluster.run("volume", "delete", result.name, "--now", "--yes")


def table(results):
    lines = ["| load | phase | seconds | writes/s | MB/s | p50, ms | p99, ms | max, ms | pause, ms | memory: " +
             ", ".join(sorted(results[0].memory.peaks)) + " |", "|" + "---|" * 10]
    for result in results:
        for phase in result.phases:
            seen = result.seen[phase.name]
            held = [result.memory.median(host, phase) for host in sorted(result.memory.peaks)]
            shown = ", ".join("-" if size is None else f"{size / MIB:.0f}" for size in held) + " MiB"
            figures = "- | - | - | - | - | -" if seen is None else (
                f"{seen.per_second:,.0f} | {seen.mb_per_second:.1f} | {seen.p50_ms:.1f} | {seen.p99_ms:.1f} | "
                f"{seen.max_ms:.0f} | {seen.pause_ms:.0f}")
            lines.append(f"| {result.name} | {phase.name} | {phase.end - phase.begin:.0f} | {figures} | {shown} |")
    return "\n".join(lines)


def summary(results):
    lines = ["| load | owner | slow host | active again after | lacked at most | owner's peak (asked: below "
             f"{OWNER_MAX // MIB} MiB) | peaks of all |", "|" + "---|" * 7]
    for result in results:
        peaks = ", ".join(f"{host} {size / MIB:.0f}" for host, size in sorted(result.memory.peaks.items()))
        owner = result.memory.peaks[result.owner] / MIB
        lacked = max((size for _, size in result.left), default=0) / MIB
        lines.append(
            f"| {result.name} at {result.per_second:g}/s | {result.owner} | {result.slow} | "
            f"{result.resync_seconds:.1f} s | {lacked:.0f} MiB | {owner:.0f} MiB, "
            f"{'yes' if result.is_good else 'NO'} | {peaks} MiB |")
    return "\n".join(lines)


def turns_text(results):
    return "\n".join(
        f"Turns longer than 20 ms, {result.name}: " + "; ".join(
            f"{turn['host']} {turn['long']}, longest {turn['longest_ms']:.0f} ms ({turn.get('longest_task', 'none')})"
            for turn in result.turns) + "." for result in results)


def picture(results, options):
    panels = []
    for result in results:
        begin, marks = result.phases[0].begin, phase_marks(result.phases, result.phases[0].begin)
        memory = [Line(host, [(at - begin, size / MIB) for at, size in samples])
                  for host, samples in sorted(result.memory.samples.items())]
        memory.append(Line("asked", [(0, OWNER_MAX / MIB), (result.phases[-1].end - begin, OWNER_MAX / MIB)]))
        title = f"{result.name}: resident memory, {result.slow} is killed and comes back slow"
        panels.append(Panel(title, memory, "s", "MiB", [*marks, "set yrange [0:*]"]))
        seconds = by_second(result.requests, begin)
        client = [Line(name, [(at, pick(took)) for at, took, _ in seconds]) for name, pick in (
            ("median", lambda it: it[len(it) // 2]), ("p99", lambda it: it[int(len(it) * 0.99)]),
            ("longest", lambda it: it[-1]))]
        panels.append(Panel(f"{result.name}: latency of the client", client, "s", "ms", [*marks, "set logscale y"]))
        rate = [Line("client, MB/s", [(at, size) for at, _, size in seconds]),
                Line("the copy lacks, MiB", [(at - begin, left / MIB) for at, left in result.left], is_right=True)]
        settings = [*marks, "set y2tics", "set y2range [0:*]", "set yrange [0:*]"]
        panels.append(Panel(f"{result.name}: written, and what the copy lacks", rate, "s", "MB/s", settings))
    title = f"A host {options.factor:g} times slower comes back"
    return script(title, panels, 3, 1600, 380 * len(results) + 40)


def as_json(results, late):
    return {
        "late": {"latency_us": late[0], "bytes_per_second": late[1]},
        "owner_bytes_max": OWNER_MAX,
        "loads": [{
            "load": result.name, "per_second": result.per_second, "owner": result.owner, "slow": result.slow,
            "resync_seconds": round(result.resync_seconds, 1), "peak_bytes": result.memory.peaks,
            "is_good": result.is_good, "turns": result.turns,
            "phases": {name: seen and asdict(seen) for name, seen in result.seen.items()},
        } for result in results],
    }


def loads(text):
    """`4k:2000,1m:40`"""
    found = []
    for part in text.split(","):
        name, _, rate = part.partition(":")
        if name not in SIZE_OF or not rate.replace(".", "", 1).isdigit() or float(rate) <= 0:
            raise argparse.ArgumentTypeError(f"'{part}' is not 4k:RATE or 1m:RATE")
        found.append((name, float(rate)))
    if len({name for name, _ in found}) != len(found):
        raise argparse.ArgumentTypeError("each load once")
    return found


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev slow-joiner", description=__doc__.split("\n", maxsplit=1)[0],
        epilog="example: ./dev slow-joiner --loads 4k:2000,1m:40 --save docs/bench/slow-joiner")
    parser.add_argument("gabion", help="the program")
    parser.add_argument("--size", default="16GiB", help="of the volume (16GiB); all files are sparse")
    parser.add_argument("--loads", type=loads, default=loads("4k:2000,1m:40"), metavar="LIST",
                        help="random writes at depth 32: size:writes a second (4k:2000,1m:40)")
    parser.add_argument("--factor", type=float, default=20, help="how many times slower (20)")
    parser.add_argument("--seconds", type=float, default=30, help="of the phases before and after (30)")
    parser.add_argument("--away", type=float, default=60, help="seconds that the host is dead (60)")
    parser.add_argument("--resync-max", type=float, default=1800, help="give up after so many seconds (1800)")
    parser.add_argument("--cache-size", default="1GiB", help="of each host (1GiB)")
    parser.add_argument("--capacity-size", help="of each host (a quarter more than the volume)")
    parser.add_argument("--dir", default=os.path.join(TARGET, "bench"), help="where all files go")
    parser.add_argument("--save", metavar="PREFIX", help="of the .md and .svg (docs/bench/DATE-slow-joiner)")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    if options.factor < 1 or options.seconds < 1 or options.away < 1:
        parser.error("--factor, --seconds and --away are at least 1")
    options.save = options.save or os.path.join(ROOT, "docs", "bench", f"{datetime.date.today()}-slow-joiner")
    return options


def measure(options, folder, cluster):
    """(results, what was set as late, one line on the conditions)."""
    latency, rate = probe(folder)
    late = (min(1_000_000, round(latency * options.factor * 1e6)), max(65_536, round(rate / options.factor)))
    capacity = ["--capacity-size", options.capacity_size] if options.capacity_size else []
    if not capacity:
        number, unit = re.fullmatch(r"([\d.]+)\s*(\w*)", options.size).groups()
        capacity = ["--capacity-size", f"{float(number) * 1.25 + (2 if unit[:1] in 'gG' else 0):g}{unit}"]
    cluster.up("--processes", "--sparse", "--yes", "--cache-size", options.cache_size, *capacity)
    if len(host_pids(cluster.data)) != 3:
        raise Failure("the hosts' processes were not found")
    results = [Result(name, per_second) for name, per_second in options.loads]
    for result in results:
        run(cluster, result, folder, options, late)
        say(f"slow-joiner, {result.name}: active again after {result.resync_seconds:.1f} s")
    conditions = (
        f"{version()}. Volume of {options.size}, two copies, three host processes and etcd over one disk; cache device "
        f"{options.cache_size}. Random writes at depth 32. This disk by itself: {latency * 1e6:.0f} us for a write of "
        f"4 KiB, {rate / 1e6:.0f} MB/s; the slow host's devices, each by itself: {late[0]} us beside "
        f"{late[1] / 1e6:.1f} MB/s ({options.factor:g} times). Dead for {options.away:g} s. Memory beside the phases: "
        "the median of each.")
    return results, late, conditions


def main(arguments):
    options = options_of(arguments)
    folder = os.path.join(os.path.abspath(options.dir), "slow-joiner")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    check_room(options, folder)
    cluster = Cluster(options.gabion, os.path.join(folder, "cluster"))
    try:
        results, late, conditions = measure(options, folder, cluster)
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    text = f"{summary(results)}\n\n{table(results)}\n\n{turns_text(results)}\n\n{conditions}\n"
    draw(options.save + ".svg", picture(results, options))
    with open(options.save + ".md", "w", encoding="utf-8") as file:
        name = os.path.basename(options.save)
        file.write(f"# One run of `./dev slow-joiner`\n\n![memory, latency and rate over time]({name}.svg)\n\n{text}")
    say(f"wrote {options.save}.md and {options.save}.svg")
    print(json.dumps(as_json(results, late), indent=2) if options.output == "json" else text)
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"slow-joiner: {failure}")
