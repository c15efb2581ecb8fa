#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tiers of a disk group give: kinds of groups beside each other, and how destage paces writes.

--tiers: for each kind of group five loads over working sets of 0.5 to 8 times the cache device: a table and a plot.
Reads are warmed up with the load itself before they count.
--pacing: 4 KiB random writes to magnetic capacity, at a rate that it takes with the write buffer 20 % and 90 % full,
and at one that it does not take: latency and writes per 100 ms, the longest pause.

The capacity of a hybrid group is a file that behaves as a magnetic disk of 7200 rpm (`gabion up
--magnetic-capacity`); everything else is the disk below, which all hosts share.
"""
import argparse
import datetime
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from cluster import Cluster, Failure, processes
from measure import ROOT, TARGET, fio, fio_job, longest_gap, say, version
from plot import Line, Panel, draw, script

KINDS = {"all-flash": [], "hybrid": ["--kind", "hybrid", "--magnetic-capacity"]}
WORKING_SETS = [0.5, 1.0, 2.0, 8.0]
READ_WARM_SECONDS = 10
WRITE_WARM_SECONDS = 2
# A full write buffer in front of magnetic capacity takes minutes to drain: what is left is told in the table.
SETTLE_SECONDS_MAX = 15
SETTLED = 0.1
FILL_SECONDS_MAX = 600
# Of the pacing runs.
SLOT_MS = 100
KEEPING_UP = 0.6
DRAIN_SECONDS_MAX = 300
FILLS = [0.9, 0.2]
# A smaller ring of segments never gets 90 % full: its reserve is a larger part of it.
PACING_CACHE_MIN = 192


@dataclass
class Load:
    """One row of the table per working set."""

    name: str
    rw: str
    block: str
    depth: int

    @property
    def warm_seconds(self):
        return WRITE_WARM_SECONDS if "write" in self.rw else READ_WARM_SECONDS


# Reads first: they find the write buffer as the filling of the volume left it.
LOADS = [
    Load("32K sequential read", "read", "32k", 8),
    Load("4K random read", "randread", "4k", 32),
    Load("8K random 70/30", "randrw", "8k", 32),
    Load("32K sequential write", "write", "32k", 8),
    Load("4K random write", "randwrite", "4k", 32),
]


@dataclass
class Figures:
    """What one fio run measured, reads and writes together."""

    iops: float
    mb_per_second: float
    mean_ms: float
    p99_ms: float
    worst_ms: float
    fill: float = 0.0

    @classmethod
    def of(cls, job):
        side = job["mixed"]
        percentile = side["clat_ns"].get("percentile", {}).get("99.000000", 0)
        latency = side["lat_ns"]
        return cls(side["iops"], side["bw_bytes"] / 1e6, latency["mean"] / 1e6, percentile / 1e6, latency["max"] / 1e6)


class Bench:
    """One cluster at a time, its volume, and fio on it."""

    def __init__(self, options):
        self.options = options
        self.folder = os.path.abspath(options.dir)
        os.makedirs(self.folder, exist_ok=True)
        self.cluster = None
        self.uri = None

    def up(self, kind, mib):
        """A fresh cluster of a kind, with a volume of so many MiB."""
        self.down()
        data = os.path.join(self.folder, "cluster")
        shutil.rmtree(data, ignore_errors=True)
        self.cluster = Cluster(self.options.gabion, data)
        asked = KINDS[kind]
        say(f"starting a cluster of three processes and etcd: {' '.join(asked) or kind}")
        # Room for what is moved, and below the limit from which on a device takes no volumes.
        capacity = max(1024, 2 * mib)
        sizes = ["--cache-size", f"{self.options.cache}MiB", "--capacity-size", f"{capacity}MiB"]
        self.cluster.up("--processes", *sizes, *asked)
        self.cluster.run("volume", "create", "bench", "--size", f"{mib}MiB", "--ftt", "1")
        shown = self.cluster.ask("volume", "show", "bench")
        hosts = [host["name"] for host in self.cluster.ask("host", "list")]
        # A host with a copy: reads are then local, as where a machine runs beside its data.
        self.uri = shown["nbd"][hosts.index(shown["components"][0]["host"])]

    def down(self):
        if self.cluster is not None:
            self.cluster.down()
            shutil.rmtree(self.cluster.data, ignore_errors=True)
            self.cluster = None

    def fio(self, seconds, *arguments):
        """Runs fio on the volume: the job that it reports."""
        common = ["--ioengine=nbd", f"--uri={self.uri}", "--unified_rw_reporting=1", "--norandommap"]
        return fio_job(fio([*common, *arguments], self.folder), self.folder, seconds)

    def write_all(self, begin, end):
        """Writes the MiB from `begin` to `end`, so that what is measured later allocates nothing."""
        say(f"writing {end - begin} MiB")
        place = [f"--offset={begin}M", f"--size={end - begin}M"]
        self.fio(FILL_SECONDS_MAX, "--rw=write", "--bs=1M", "--iodepth=8", *place)

    def drain(self, fill, seconds):
        """Waits until the write buffers are no fuller than `fill`, for so long at most; how full they are."""
        end = time.monotonic() + seconds
        while (now := self.cluster.buffer_fill()) > fill and time.monotonic() < end:
            time.sleep(0.1)
        return now


def tiers(bench, options):
    """{(kind, load, working set): Figures}."""
    found = {}
    for kind in options.kinds:
        largest = int(max(options.sets) * options.cache)
        bench.up(kind, largest)
        written = 0
        for times in options.sets:
            mib = int(times * options.cache)
            bench.write_all(written, mib)
            written = mib
            for load in options.loads:
                fill = bench.drain(SETTLED, SETTLE_SECONDS_MAX)
                say(f"{kind}: {load.name} over {mib} MiB, {options.seconds} s; buffer {fill * 100:.0f} % full")
                warm = min(load.warm_seconds, options.warm)
                arguments = [f"--rw={load.rw}", f"--bs={load.block}", f"--iodepth={load.depth}", f"--size={mib}M"]
                arguments += ["--rwmixread=70"] if load.rw == "randrw" else []
                arguments += ["--time_based", f"--runtime={options.seconds}", f"--ramp_time={warm}"]
                figures = Figures.of(bench.fio(options.seconds + warm, *arguments))
                figures.fill = fill
                say(f"{kind}: {figures.iops:,.0f} IOPS, p99 {figures.p99_ms:.1f} ms")
                found[(kind, load.name, times)] = figures
        bench.down()
    return found


def tiers_table(found, options):
    heads = [f"{kind} {what}" for kind in options.kinds for what in ("IOPS", "MB/s", "p99 ms", "buffer %")]
    lines = ["| load | working set | " + " | ".join(heads) + " |", "|---" * (2 + len(heads)) + "|"]
    for load in options.loads:
        for times in options.sets:
            cells = [load.name, f"{times:g} x cache"]
            for kind in options.kinds:
                figures = found.get((kind, load.name, times))
                if figures is None:
                    cells += ["-"] * 4
                    continue
                cells += [f"{figures.iops:,.0f}", f"{figures.mb_per_second:,.1f}", f"{figures.p99_ms:,.1f}"]
                cells.append(f"{figures.fill * 100:.0f}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tiers_plot(found, options):
    def panel(load, what, name):
        lines = []
        for kind in options.kinds:
            known = [(times, found.get((kind, load.name, times))) for times in options.sets]
            # A logarithm has no place for zero.
            points = [(times, max(getattr(figures, what), 0.01)) for times, figures in known if figures]
            lines.append(Line(kind, points))
        ticks = ", ".join(f"{times:g}" for times in options.sets)
        ends = f"set xrange [{options.sets[0] * 0.8:g}:{options.sets[-1] * 1.25:g}]"
        settings = ["set logscale y", "set logscale x 2", f"set xtics ({ticks})", ends]
        return Panel(f"{load.name}: {name}", lines, "working set / cache device", name, settings)

    panels = [panel(load, "iops", "IOPS") for load in options.loads]
    panels += [panel(load, "p99_ms", "p99, ms") for load in options.loads]
    columns = len(options.loads)
    title = f"Cache device of {options.cache} MiB, two copies on three hosts"
    return script(title, panels, columns, 300 * columns, 560, "linespoints pt 7")


def tiers_conditions(options):
    return (
        f"{version()}. Cache device of {options.cache} MiB, one capacity device per group, three host processes and "
        f"etcd on one disk, FTT 1, every write durable; {options.seconds} s per case after at most {options.warm} s "
        "of warm-up with the same load; 32 requests at a time (sequential: 8). \"buffer %\": how full the fullest "
        "write buffer was when the case began. Capacity of the hybrid group: a file that behaves as a magnetic disk "
        "of 7200 rpm (8 ms to a random place, 150 MB/s, 32 requests to choose from)."
    )


class Sampler:
    """The fill of the fullest write buffer, over time, beside a run."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.points = []
        self.is_over = threading.Event()
        self.begin = time.monotonic()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over.wait(0.5):
            try:
                self.points.append((time.monotonic() - self.begin, self.cluster.buffer_fill() * 100))
            except (Failure, OSError, subprocess.SubprocessError):
                pass  # one point less

    def end(self):
        self.is_over.set()
        self.thread.join()
        return self.points


@dataclass
class Run:
    """One paced run: its figures, and per 100 ms writes per second, milliseconds, and the fill."""

    rate: int
    figures: Figures
    iops: list
    latency: list
    fill: list
    begin_fill: float

    @property
    def pause_ms(self):
        # A slot at either edge may be empty in part; and no pause is longer than the slowest write.
        slots = {round(seconds * 1e3 / SLOT_MS): value for seconds, value in self.iops}
        return min((longest_gap(slots) + 2) * SLOT_MS, self.figures.worst_ms)

    @property
    def steady_iops(self):
        """Of the last third: by then the buffer is as full as it gets."""
        return self.last_third(self.iops)

    @property
    def steady_ms(self):
        return self.last_third(self.latency)

    @staticmethod
    def last_third(points):
        tail = [value for _, value in points[len(points) * 2 // 3:]]
        return sum(tail) / max(len(tail), 1)


def points_of(path, scale):
    """(seconds, value) of a fio log."""
    with open(path, encoding="ascii") as file:
        rows = [line.split(",") for line in file]
    return [(int(row[0]) / 1e3, int(row[1]) * scale) for row in rows if len(row) > 1]


def paced(bench, rate, seconds, mib):
    """4 KiB random writes at a rate."""
    log = os.path.join(bench.folder, "pacing")
    fill = bench.cluster.buffer_fill()
    say(f"{rate} writes/s for {seconds} s, from a buffer {fill * 100:.0f} % full")
    sampler = Sampler(bench.cluster)
    arguments = ["--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={mib}M", f"--rate_iops={rate}"]
    arguments += ["--time_based", f"--runtime={seconds}", f"--log_avg_msec={SLOT_MS}"]
    arguments += [f"--write_iops_log={log}", f"--write_lat_log={log}"]
    try:
        figures = Figures.of(bench.fio(seconds, *arguments))
    finally:
        points = sampler.end()
    iops, latency = points_of(log + "_iops.1.log", 1), points_of(log + "_lat.1.log", 1e-6)
    return Run(rate, figures, iops, latency, points, fill)


def pacing(bench, options):
    """(the run above what capacity takes, the runs below it)."""
    mib = 4 * options.cache
    bench.up("hybrid", mib)
    bench.write_all(0, mib)
    bench.drain(SETTLED, DRAIN_SECONDS_MAX)
    over = paced(bench, options.overload, 2 * options.seconds, mib)
    rate = max(int(over.steady_iops * KEEPING_UP), 1)
    below = []
    for fill in FILLS:
        say(f"waiting until the buffer is no more than {fill * 100:.0f} % full")
        bench.drain(fill, DRAIN_SECONDS_MAX)
        below.append(paced(bench, rate, options.seconds, mib))
    bench.down()
    return over, below


def pacing_text(over, below):
    """Three lines."""
    lines = [f"- {over.rate:,} writes/s offered, more than capacity takes: {over.steady_iops:,.0f} writes/s and "
             f"{over.steady_ms:,.1f} ms on average in steady state, p99 of all of it {over.figures.p99_ms:,.1f} ms.",
             f"- Its longest pause: {over.pause_ms:,.0f} ms (slowest write {over.figures.worst_ms:,.0f} ms)."]
    each = [f"from {run.begin_fill * 100:.0f} % of the buffer {run.figures.mean_ms:,.2f} ms on average, "
            f"p99 {run.figures.p99_ms:,.1f}, slowest {run.figures.worst_ms:,.0f}" for run in below]
    rate = below[0].rate if below else 0
    return "\n".join([*lines, f"- {rate:,} writes/s offered, which capacity takes: " + "; ".join(each) + "."])


def pacing_plot(over, below, options):
    def fills(run):
        return Line("buffer, %", run.fill, is_right=True)

    right = ["set y2range [0:100]", "set y2tics"]
    offered = f"{over.rate:,} writes/s offered"
    panels = [Panel(f"{offered}: writes/s", [Line("writes/s", over.iops), fills(over)], "s", "writes/s", right)]
    for run in [over, *below]:
        title = f"{run.rate:,} writes/s offered from {run.begin_fill * 100:.0f} %: latency"
        lines = [Line("mean of 100 ms", run.latency), fills(run)]
        panels.append(Panel(title, lines, "s", "ms", ["set logscale y", *right]))
    title = f"Pace of destage: cache device of {options.cache} MiB before magnetic capacity"
    return script(title, panels, 2, 1200, 760)


def save(prefix, title, text, plot):
    """Writes PREFIX.md and PREFIX.svg."""
    draw(prefix + ".svg", plot)
    picture = f"![{title}]({os.path.basename(prefix)}.svg)"
    with open(prefix + ".md", "w", encoding="utf-8") as file:
        file.write(f"# One run of `./dev bench {title}`\n\n{picture}\n\n{text}")
    say(f"wrote {prefix}.md and {prefix}.svg")


def options_of(arguments):
    names = [load.name for load in LOADS]
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n", maxsplit=1)[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--tiers", action="store_true", help="kinds of disk groups, working sets and loads")
    what.add_argument("--pacing", action="store_true", help="how destage paces writes")
    parser.add_argument("--kinds", default="all-flash,hybrid", help="of --tiers: comma list (all-flash,hybrid)")
    parser.add_argument("--cache", type=int, metavar="MIB", default=256, help="cache device (256)")
    parser.add_argument("--seconds", type=int, help="of each case (15; of --pacing 30, twice that above capacity)")
    parser.add_argument("--warm", type=int, default=READ_WARM_SECONDS, help="most seconds of a warm-up (10)")
    parser.add_argument("--sets", default=",".join(f"{times:g}" for times in WORKING_SETS),
                        help="of --tiers: working sets in cache devices (0.5,1,2,8)")
    parser.add_argument("--loads", default="all", help="of --tiers: comma list of: " + ", ".join(names))
    parser.add_argument("--overload", type=int, default=3000, metavar="RATE", help="of --pacing: writes/s (3000)")
    parser.add_argument("--dir", default=os.path.join(ROOT, "target", "bench"), help="where all files go")
    parser.add_argument("--gabion", default=os.path.join(TARGET, "release", "gabion"), help="the binary")
    parser.add_argument("--save", metavar="PREFIX", help="of the .md and .svg (docs/bench/DATE-tiers or -pacing)")
    parser.add_argument("--check", action="store_true", help="check the options and end")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (15 if options.tiers else 30)
    least = 64 if options.tiers else PACING_CACHE_MIN
    if options.cache < least or options.seconds < 1:
        parser.error(f"--cache must be at least {least} and --seconds at least 1")
    options.kinds = options.kinds.split(",")
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    unknown += [name for name in options.loads.split(",") if options.loads != "all" and name not in names]
    if unknown:
        parser.error(f"no kind or load '{unknown[0]}'")
    options.loads = [load for load in LOADS if options.loads == "all" or load.name in options.loads.split(",")]
    try:
        options.sets = sorted({float(times) for times in options.sets.split(",")})
    except ValueError:
        parser.error("--sets is a comma list of numbers")
    if options.sets[0] * options.cache < 1:
        parser.error("a working set is at least 1 MiB")
    name = "tiers" if options.tiers else "pacing"
    options.save = options.save or os.path.join(ROOT, "docs", "bench", f"{datetime.date.today()}-{name}")
    return options


def main(arguments):
    options = options_of(arguments)
    if options.check:
        return 0
    bench = Bench(options)
    begin = time.monotonic()
    try:
        if options.tiers:
            found = tiers(bench, options)
            text = f"{tiers_table(found, options)}\n\n{tiers_conditions(options)}\n"
            plot = tiers_plot(found, options)
        else:
            over, below = pacing(bench, options)
            text = (f"{pacing_text(over, below)}\n\n{version()}. Hybrid group; cache device of {options.cache} MiB, "
                    "4 KiB random writes over four times as much, FTT 1, three host processes and etcd.\n")
            plot = pacing_plot(over, below, options)
    finally:
        bench.down()
    say(f"measured in {(time.monotonic() - begin) / 60:.1f} minutes")
    print(text)
    save(options.save, "--tiers" if options.tiers else "--pacing", text, plot)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        sys.exit(f"tiers: {failure}")
