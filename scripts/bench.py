#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of a cluster beside the raw disk and the bare probe, in one run and one table.

All three use the same folder. The probe (two O_DSYNC logs behind NBD, no index, no checksums) is run
before and after the cases, and the mean counts: on a shared machine only figures of the same minutes compare.
"filling" cases begin with a drained write buffer and end before destage begins at 0.8 of it: fast writes run
several times for that. "steady" cases run 60 s and count their last 30 s. They stand beside what the disk carries of
their devices' requests alone, too (`device_pattern.py`), with the requests that the kernel counted per client write.
"steady-paged" has a cluster of its own: the largest volume that fits the folder, and a twentieth of the checksum pages
that it touches in memory. It runs 240 s and counts the last 180.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace

import account
import device_pattern
from cluster import Cluster, Failure, cpu_seconds, memory_bytes, processes
from measure import ROOT, TARGET, disk_requests, fio, fio_job, longest_gap, parse_log, say, version

PROBE = os.path.join(ROOT, "..", "shared", "limit", "bench.sh")
DRAINED = 0.1
DRAIN_SECONDS_MAX = 300
STEADY_SECONDS = 60
STEADY_COUNTED = 30
# Long enough for half a journal, 1.4 million blocks: its pages are written once meanwhile.
PAGED_SECONDS = 240
PAGED_COUNTED = 180
LOG_MSEC = 50
# The hosts tell of the last window of requests, which is twice as long.
WATCH_SECONDS = 5
GIB = 1 << 30
HOSTS = 3
CACHE_GIB = 1
# Beyond the volume itself: what is needed to move.
CAPACITY_MORE_GIB = 4
# What stays free beside a cluster with the largest volume: 10 GiB are for `device_pattern.py`.
PAGED_SPARE_GIB = 20
# Of the probe and the raw disk, which stay until the end.
LEFT_BEHIND_GIB = 7
# Below, a twentieth of the pages is less than a host may be told; above, filling takes too long.
PAGED_GIB = (8, 32)
PAGED_PART = 20
PAGE = 4096
# A page has the checksums of so many chunks of 1 MiB.
PAGE_CHUNKS = 3
FILL_SECONDS_MAX = 600


@dataclass
class Case:
    """One row. Targets: of the probe's IOPS, microseconds of server CPU per I/O, a row that is no faster."""

    name: str
    rw: str
    block: str
    depth: int
    ratio: float | None = None
    cpu_us: float | None = None
    steady_gib: int = 0
    runs: int = 1
    seconds: int | None = None
    as_many_as: str | None = None
    # In a cluster of its own, whose hosts have a twentieth of the checksum pages in memory.
    is_paged: bool = False

    @property
    def steady(self):
        """Seconds of a steady case, and how many at its end count."""
        return (PAGED_SECONDS, PAGED_COUNTED) if self.is_paged else (STEADY_SECONDS, STEADY_COUNTED)

    @property
    def probe(self):
        return (self.rw, self.depth) if self.block == "4k" else None


CASES = [
    Case("write-1", "randwrite", "4k", 1, ratio=0.85),
    Case("write-32", "randwrite", "4k", 32, ratio=0.80, cpu_us=16, runs=3, seconds=4),
    Case("first-10s", "randwrite", "4k", 32, ratio=0.80, cpu_us=16, seconds=10),
    Case("read-1", "randread", "4k", 1, ratio=0.90),
    Case("read-32", "randread", "4k", 32, ratio=0.85),
    Case("seqwrite", "write", "1M", 8),
    Case("seqread", "read", "1M", 8),
    Case("write-seq-4k", "write", "4k", 32, runs=3, seconds=4),
    Case("write-seq-512", "write", "512", 32, runs=3, seconds=4, as_many_as="write-seq-4k"),
    Case("steady-1g", "randwrite", "4k", 32, ratio=0.60, cpu_us=22, steady_gib=1),
    Case("steady-8g", "randwrite", "4k", 32, ratio=0.55, cpu_us=22, steady_gib=8),
    Case("steady-paged", "randwrite", "4k", 32, ratio=0.55, cpu_us=22, steady_gib=PAGED_GIB[0], is_paged=True),
]
PAUSE_MS_MAX = 50
P99_MS_MAX = 3
PATTERN_RATIO_MIN = 0.75


@dataclass
class Figures:
    """What one fio run measured."""

    iops: float
    mean_us: float
    p99_us: float
    worst_ms: float
    cpu_us: float | None = None
    etcd_us: float | None = None
    pause_ms: float | None = None
    # The slowest request to a device within the run, as the hosts measured it.
    device_ms: float | None = None
    requests: dict = field(default_factory=dict)
    account: str = ""
    notes: list = field(default_factory=list)

    @classmethod
    def mean(cls, runs):
        """Means of several runs; the worst of what is worst."""
        def mean(name):
            values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
            return sum(values) / len(values) if values else None
        worst = {name: max((getattr(run, name) or 0 for run in runs), default=0) for name in ("p99_us", "worst_ms")}
        pauses = [run.pause_ms for run in runs if run.pause_ms is not None]
        slowest = [run.device_ms for run in runs if run.device_ms is not None]
        return cls(mean("iops"), mean("mean_us"), **worst, cpu_us=mean("cpu_us"), etcd_us=mean("etcd_us"),
                   pause_ms=max(pauses, default=None), device_ms=max(slowest, default=None),
                   requests=runs[-1].requests, account=runs[-1].account,
                   notes=[note for run in runs for note in run.notes])


def fio_result(process, folder, rw, seconds):
    """Waits for fio and reads one direction of its result."""
    return parse_job(fio_job(process, folder, seconds), rw)


def parse_job(job, rw):
    side = job["write" if "write" in rw else "read"]
    percentile = side["clat_ns"].get("percentile", {}).get("99.000000", 0)
    latency = side["lat_ns"]
    return Figures(side["iops"], latency["mean"] / 1e3, percentile / 1e3, latency["max"] / 1e6)


def parse_iops_log(lines, begin_ms):
    """(mean IOPS from `begin_ms` on, milliseconds of the longest row of empty intervals) of a fio log."""
    per_slot = parse_log(lines, LOG_MSEC)
    counted = [value for slot, value in per_slot.items() if slot * LOG_MSEC >= begin_ms]
    return sum(counted) / max(len(counted), 1), longest_gap(per_slot) * LOG_MSEC


def parse_probe(text):
    """{(rw, qd): Figures} of the lines that limit/bench.sh prints."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[1].isdigit():
            rw, depth, iops, mean, p99, cpu = fields[:6]
            found[(rw, int(depth))] = Figures(float(iops), float(mean), float(p99), 0.0, float(cpu))
    return found


def paged_gib(free_bytes):
    """GiB of the largest volume whose cluster fits so many free bytes; raises Failure where none does."""
    each = (free_bytes // GIB - PAGED_SPARE_GIB) // HOSTS
    gib = min(each - CACHE_GIB - CAPACITY_MORE_GIB, PAGED_GIB[1])
    if gib < PAGED_GIB[0]:
        needed = HOSTS * (PAGED_GIB[0] + CACHE_GIB + CAPACITY_MORE_GIB) + PAGED_SPARE_GIB
        raise Failure(f"steady-paged needs {needed} GiB of free space: name another folder with --dir")
    return gib


def paged_bytes(gib):
    """Bytes of checksum pages that a host with a copy of such a volume has in memory."""
    return gib * 1024 // PAGE_CHUNKS // PAGED_PART * PAGE


def with_checksum_bytes(text, number):
    """A host.toml with so many bytes of checksum pages."""
    text = re.sub(r"(?m)^checksum_bytes = .*\n", "", text)
    if "\n[memory]\n" not in text:
        return f"{text.rstrip()}\n\n[memory]\nchecksum_bytes = {number}\n"
    return text.replace("\n[memory]\n", f"\n[memory]\nchecksum_bytes = {number}\n")


class Bench:
    """The folder, the cluster in it, and what was measured."""

    def __init__(self, options):
        self.options = options
        self.folder = os.path.abspath(options.dir)
        self.seconds = 4 if options.quick else options.seconds
        data = os.path.join(self.folder, "cluster")
        shutil.rmtree(data, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)
        self.cluster = None if options.no_gabion else Cluster(options.gabion, data)
        self.probes = []
        self.pattern = None
        self.pattern_pause = None
        self.rows = []

    def start(self, gib_max):
        """A fresh cluster whose capacity holds the largest volume and what is needed to move."""
        if self.cluster is None:
            return
        say("starting a cluster of three processes and etcd")
        capacity = f"{gib_max + CAPACITY_MORE_GIB}GiB"
        self.cluster.up("--processes", "--cache-size", f"{CACHE_GIB}GiB", "--capacity-size", capacity)
        idle = memory_bytes(processes("gabion", self.cluster.data))
        say(f"resident memory of the idle hosts: {idle / 1e6:.0f} MB")

    def start_paged(self):
        """A cluster for the largest volume that fits, in the place of the one before; GiB of that volume."""
        if self.cluster is None:
            return PAGED_GIB[0]
        self.cluster.down()
        shutil.rmtree(self.cluster.data, ignore_errors=True)
        gib = paged_gib(shutil.disk_usage(self.folder).free)
        self.start(gib)
        for number in range(1, HOSTS + 1):
            host = f"host{number}"
            config = os.path.join(self.cluster.data, host, "host.toml")
            self.cluster.run("host", "kill", host)
            with open(config, encoding="utf-8") as file:
                text = with_checksum_bytes(file.read(), paged_bytes(gib))
            with open(config, "w", encoding="utf-8") as file:
                file.write(text)
            self.cluster.run("host", "start", host)
        return gib

    def volume(self, name, gib):
        """Creates a volume, writes all of it, and returns its URI at the first host."""
        self.cluster.run("volume", "create", name, "--size", f"{gib}GiB", "--ftt", "1")
        uri = self.cluster.uris(name)[0]
        say(f"writing {gib} GiB to volume {name} before the clock starts")
        arguments = ["--ioengine=nbd", f"--uri={uri}", "--rw=write", "--bs=1M", "--iodepth=8", f"--size={gib}G"]
        fio_result(fio(arguments, self.folder), self.folder, "write", FILL_SECONDS_MAX)
        return uri

    def drain(self):
        """Waits for an empty write buffer; returns a note when it did not come."""
        begin = time.monotonic()
        say("waiting for a drained buffer")
        while time.monotonic() - begin < DRAIN_SECONDS_MAX:
            fill = self.cluster.buffer_fill()
            if fill < DRAINED:
                say(f"drained to {fill:.2f} after {time.monotonic() - begin:.0f} s")
                return []
            time.sleep(0.5)
        return [f"buffer still at {fill:.2f} after {DRAIN_SECONDS_MAX} s"]

    def gabion(self, case, uri, gib):
        """One measured run against the cluster."""
        seconds, counted = case.steady
        if not case.steady_gib:
            seconds = min(self.seconds, case.seconds or self.seconds)
        notes = self.drain()
        say(f"{case.name}: gabion, {seconds} s")
        log = os.path.join(self.folder, "fio")
        arguments = ["--ioengine=nbd", f"--uri={uri}", f"--rw={case.rw}", f"--bs={case.block}", f"--size={gib}G"]
        arguments += [f"--iodepth={case.depth}", "--time_based", f"--runtime={seconds}"]
        arguments += [f"--write_iops_log={log}", f"--log_avg_msec={LOG_MSEC}"] if case.steady_gib else []
        servers = processes("gabion", self.cluster.data)
        directory = processes("etcd", self.cluster.data)
        running = fio(arguments, self.folder)
        wait = self.watch if case.steady_gib else time.sleep
        slowest = [wait(seconds - counted - 1 if case.steady_gib else 1)]
        begin = account.Moment(self.cluster, servers)
        before = (time.monotonic(), cpu_seconds(servers), cpu_seconds(directory))
        asked = disk_requests(self.folder)
        slowest.append(wait(counted if case.steady_gib else seconds - 2))
        after = (time.monotonic(), cpu_seconds(servers), cpu_seconds(directory))
        done = disk_requests(self.folder)
        end = account.Moment(self.cluster, servers)
        figures = fio_result(running, self.folder, case.rw, seconds)
        if case.steady_gib:
            with open(log + "_iops.1.log", encoding="ascii") as file:
                lines = file.readlines()
            figures.iops, empty = parse_iops_log(lines, (seconds - counted) * 1000)
            # An interval at either edge may be empty in part; and no pause is longer than the slowest I/O.
            figures.pause_ms = min(empty + 2 * LOG_MSEC, figures.worst_ms)
            figures.device_ms = max([*slowest, account.slowest_request_ms(self.cluster)])
        ios = max(figures.iops * (after[0] - before[0]), 1)
        figures.cpu_us = (after[1] - before[1]) / ios * 1e6
        figures.etcd_us = (after[2] - before[2]) / ios * 1e6
        figures.requests = {name: (done[name] - asked[name]) / ios for name in done}
        figures.account = account.text(begin, end, ios, figures.requests)
        figures.notes = notes
        return figures

    def watch(self, seconds):
        """Lets so much time pass; the milliseconds of the slowest request to a device that the hosts saw meanwhile."""
        slowest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() + WATCH_SECONDS < end:
            time.sleep(WATCH_SECONDS)
            slowest = max(slowest, account.slowest_request_ms(self.cluster))
        time.sleep(max(end - time.monotonic(), 0))
        return slowest

    def raw(self, case):
        """The same load on a file in the same folder: no network, no copy, durable writes."""
        # As long as a steady case: how long the disk alone stands still now and then is seen by nothing shorter.
        seconds = STEADY_SECONDS if case.steady_gib else self.seconds
        path = os.path.join(self.folder, "raw")
        common = ["--ioengine=io_uring", "--direct=1", f"--filename={path}", "--size=1G"]
        if not os.path.exists(path) or os.path.getsize(path) < GIB:
            fill = [*common, "--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"]
            fio_result(fio(fill, self.folder), self.folder, "write", 120)
        say(f"{case.name}: raw disk, {seconds} s")
        arguments = [*common, f"--rw={case.rw}", f"--bs={case.block}", f"--iodepth={case.depth}"]
        arguments += ["--time_based", f"--runtime={seconds}"]
        arguments += ["--sync=dsync"] if "write" in case.rw else []
        return fio_result(fio(arguments, self.folder), self.folder, case.rw, seconds)

    def probe(self):
        """Runs the probe's own script once, where it exists."""
        if self.options.no_probe or not os.path.exists(PROBE):
            return
        say(f"probe, four cases of {self.seconds} s")
        environment = dict(os.environ, RT=str(self.seconds), CARGO_TARGET_DIR=os.path.join(ROOT, "target", "limit"))
        command = ["bash", PROBE, os.path.join(self.folder, "probe")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
        found = parse_probe(done.stdout)
        if done.returncode != 0 or not found:
            say(f"the probe failed and is left out: {done.stderr.strip()[-300:]}")
            return
        self.probes.append(found)

    def probe_iops(self, case, first=0):
        """The probe's figures for this case from its `first` run on."""
        return [run[case.probe].iops for run in self.probes[first:] if case.probe in run]

    def measure(self, case, uri, gib):
        row = {"case": case, "gabion": None, "raw": None, "first_probe": 0}
        if self.cluster is not None:
            row["gabion"] = Figures.mean([self.gabion(case, uri, gib) for _ in range(case.runs)])
        if not self.options.no_raw:
            row["raw"] = self.raw(case)
        self.rows.append(row)

    def run(self, cases):
        filling = [case for case in cases if not case.steady_gib]
        steady = [case for case in cases if case.steady_gib]
        shared = [case for case in cases if not case.is_paged]
        if shared:
            self.start(max([1, *(case.steady_gib for case in shared)]))
        uri = self.volume("bench", 1) if self.cluster and filling else None
        self.probe()
        for case in filling:
            self.measure(case, uri, 1)
        if filling:
            self.probe()
        for wanted in steady:
            case = replace(wanted, steady_gib=self.start_paged()) if wanted.is_paged else wanted
            uri = self.volume(case.name, case.steady_gib) if self.cluster else None
            first = max(len(self.probes) - 1, 0)
            self.measure(case, uri, case.steady_gib)
            self.rows[-1]["first_probe"] = first
            if case.is_paged and self.cluster:
                self.rows[-1]["gabion"].notes.append(self.paged_note(case.steady_gib))
        if steady:
            self.probe()
            self.play_pattern()

    def paged_note(self, gib):
        """Of how many checksum pages the hosts have how many in memory, as they say themselves."""
        reports = self.cluster.ask("status")["memory"]
        parts = [part for report in reports for part in report["parts"] if part["name"] == "checksum-pages"]
        budget, most = (max(part[name] for part in parts) // PAGE for name in ("budget_bytes", "most_bytes"))
        touched = gib * 1024 // PAGE_CHUNKS
        return f"{gib} GiB, {touched:,} checksum pages on each of two hosts, {budget:,} in memory (at most {most:,})"

    def play_pattern(self):
        """What the disk carries of the devices' part of a steady load."""
        if self.options.no_pattern:
            return
        say("the devices' part of a steady load alone")
        rate, commit_us = device_pattern.measure(os.path.join(self.folder, "pattern"))
        say(f"the disk carries {rate} client writes/s, a commit takes {commit_us:.0f} us")
        self.pattern = rate or None
        if rate:
            self.pattern_pause = device_pattern.longest_pause(os.path.join(self.folder, "pattern"), rate)
            say(f"its slowest commit in a minute takes {self.pattern_pause:.0f} ms")

    def table(self):
        lines = [
            "| case | gabion IOPS | mean us | p99 us | CPU us/IO | etcd us/IO | raw IOPS | probe IOPS (each run) "
            "| of probe | target | met |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            lines.append(self.line(row))
        for row in self.rows:
            for note in row["gabion"].notes if row["gabion"] else []:
                lines.append(f"\n{row['case'].name}: {note}.")
            if row["gabion"] and "write" in row["case"].rw:
                lines.append(f"\n{row['case'].name}: {row['gabion'].account}.")
            if row["case"].steady_gib and row["gabion"]:
                lines.append("\n" + self.beside_pattern(row["case"], row["gabion"]))
                lines.append("\n" + beside_devices(row["case"], row["gabion"], row["raw"]))
        return "\n".join(lines)

    def beside_pattern(self, case, gabion):
        """A steady case beside the devices' part alone, and the disk's requests for each client write."""
        if self.pattern is None:
            return f"{case.name}: the devices' part alone was not measured."
        ratio = gabion.iops / self.pattern
        met = "met" if ratio >= PATTERN_RATIO_MIN else "missed"
        alone = f"{ratio:.2f} of the devices' part alone, {self.pattern:,} writes/s"
        pause = f"its slowest commit in a minute took {self.pattern_pause:.0f} ms"
        return f"{case.name}: {alone} (asked {PATTERN_RATIO_MIN}: {met}); {pause}."

    def line(self, row):
        case, gabion, raw = row["case"], row["gabion"], row["raw"]
        probes = self.probe_iops(case, row["first_probe"]) if case.probe else []
        probe = sum(probes) / len(probes) if probes else None
        ratio = gabion.iops / probe if gabion and probe else None
        others = [row["gabion"] for row in self.rows if row["case"].name == case.as_many_as]
        targets, met = judge(case, gabion, ratio, others[0].iops if others and others[0] else None)
        cells = [case.name]
        if gabion:
            cells += [f"{gabion.iops:,.0f}", f"{gabion.mean_us:,.0f}", f"{gabion.p99_us:,.0f}"]
            cells += [f"{gabion.cpu_us:.1f}", f"{gabion.etcd_us:.1f}"]
        else:
            cells += ["-"] * 5
        cells.append(f"{raw.iops:,.0f}" if raw else "-")
        each = " / ".join(f"{value:,.0f}" for value in probes)
        cells.append(f"{probe:,.0f} ({each})" if probe else "-")
        cells.append(f"{ratio:.2f}" if ratio else "-")
        return "| " + " | ".join([*cells, targets, met]) + " |"


def beside_devices(case, gabion, raw):
    """Whose a steady case's longest pause is: the slowest request to a device within it, and of the raw disk alone."""
    alone = f"; the raw disk alone, in {STEADY_SECONDS} s: {raw.worst_ms:.0f} ms" if raw else ""
    return (f"{case.name}: longest pause {gabion.pause_ms:.0f} ms; the slowest request to a device within the run: "
            f"{gabion.device_ms:.0f} ms{alone}.")


def judge(case, gabion, ratio, other=None):
    """(what is asked, whether it was met) of a case; "-" where nothing was asked or measured."""
    asked, answers = [], []
    if case.ratio:
        asked.append(f">= {case.ratio:.2f}")
        answers.append(None if ratio is None else ratio >= case.ratio)
    if case.cpu_us:
        asked.append(f"CPU <= {case.cpu_us:g}")
        answers.append(None if gabion is None else gabion.cpu_us <= case.cpu_us)
    if case.steady_gib:
        seen = f" (is {gabion.pause_ms:.0f}, slowest I/O {gabion.worst_ms:.0f})" if gabion else ""
        asked.append(f"pause <= {PAUSE_MS_MAX} ms{seen}")
        answers.append(None if gabion is None else gabion.pause_ms <= PAUSE_MS_MAX)
        asked.append(f"p99 <= {P99_MS_MAX} ms")
        answers.append(None if gabion is None else gabion.p99_us <= P99_MS_MAX * 1000)
    if case.as_many_as:
        asked.append(f"as many as {case.as_many_as}")
        answers.append(None if gabion is None or other is None else gabion.iops >= other)
    if False in answers:
        met = "no"
    elif not answers or None in answers:
        met = "-"
    else:
        met = "yes"
    return ", ".join(asked) or "-", met


def conditions(seconds):
    """What a reader must know to repeat the run."""
    return (
        f"{version()}, {seconds} s per filling case (write-32, write-seq: 3 runs of 4 s), "
        f"{STEADY_SECONDS} s per steady case (IOPS and CPU of the last {STEADY_COUNTED} s; "
        f"steady-paged: {PAGED_SECONDS} and {PAGED_COUNTED}; "
        "latencies of the whole run). 4 KiB random (seqwrite, seqread: 1 MiB; write-seq: as named), "
        "FTT 1, three host processes and etcd on one disk, checksums on, every write durable; "
        "raw disk: one file, O_DIRECT, writes O_DSYNC."
    )


def options_of(arguments):
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="4 s per case, no steady cases")
    parser.add_argument("--seconds", type=int, default=10, help="of each filling case (10)")
    parser.add_argument("--cases", default="all", help="comma list of: " + ", ".join(names))
    parser.add_argument("--dir", default=os.path.join(ROOT, "target", "bench"), help="where all files go")
    parser.add_argument("--gabion", default=os.path.join(TARGET, "release", "gabion"), help="the binary")
    parser.add_argument("--save", metavar="FILE", help="write the table as Markdown as well")
    parser.add_argument("--no-gabion", action="store_true", help="raw disk and probe only")
    parser.add_argument("--no-raw", action="store_true")
    parser.add_argument("--no-probe", action="store_true")
    parser.add_argument("--no-pattern", action="store_true", help="without the devices' part of a steady load alone")
    parser.add_argument("--check", action="store_true", help="check the options and end")
    options = parser.parse_args(arguments)
    if options.seconds < 3:
        parser.error("--seconds must be at least 3: one second at either end is not measured")
    wanted = names if options.cases == "all" else options.cases.split(",")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"no case {unknown[0]}: choose from {', '.join(names)}")
    cases = [case for case in CASES if case.name in wanted]
    if options.quick:
        cases = [case for case in cases if not case.steady_gib]
    return options, cases


def main(arguments):
    options, cases = options_of(arguments)
    if options.check:
        return 0
    if not options.no_gabion and any(case.name == "steady-paged" for case in cases):
        # Said before twelve minutes of other cases, which leave these files behind.
        os.makedirs(options.dir, exist_ok=True)
        left = 0 if os.path.exists(os.path.join(options.dir, "probe")) else LEFT_BEHIND_GIB
        paged_gib(shutil.disk_usage(options.dir).free - left * GIB)
    bench = Bench(options)
    try:
        bench.run(cases)
    finally:
        if bench.cluster is not None:
            bench.cluster.down()
            shutil.rmtree(bench.cluster.data, ignore_errors=True)
    text = f"{bench.table()}\n\n{conditions(bench.seconds)}\n"
    print(text)
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            file.write("# One run of `./dev bench`\n\n" + text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"bench: {failure}")
