# SPDX-License-Identifier: Apache-2.0
"""A client's requests and the hosts' memory over time, split into phases.

Requests are (second at which it ended, milliseconds that it took, bytes), seconds as time.time() counts them.
"""
import re
import statistics
import threading
import time
from dataclasses import dataclass

from cluster import Failure, processes

SAMPLE_SECONDS = 0.25


@dataclass
class Phase:
    """A part of a run, [begin, end) in seconds."""

    name: str
    begin: float
    end: float = 0.0


@dataclass
class Latencies:
    """What a client saw in a phase; milliseconds."""

    requests: int
    per_second: float
    mb_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    # The longest time in which nothing ended, from the beginning of the phase to its end.
    pause_ms: float


def fio_requests(path):
    """Of a log of single requests with `--log_unix_epoch=1`: completion latencies, by the second of the end."""
    found = []
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                fields = line.split(",")
                found.append((int(fields[0]) / 1e3, int(fields[1]) / 1e6, int(fields[3])))
    except (OSError, ValueError, IndexError) as error:
        raise Failure(f"fio's log {path} cannot be read: {error}") from None
    found.sort()
    return found


def rank(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latencies(requests, phase):
    """Of the requests that ended in the phase; None where there were none."""
    inside = [request for request in requests if phase.begin <= request[0] < phase.end]
    if not inside:
        return None
    ends = [phase.begin, *sorted(at for at, _, _ in inside), phase.end]
    pause = max(after - before for before, after in zip(ends, ends[1:]))
    ordered = sorted(took for _, took, _ in inside)
    seconds = phase.end - phase.begin
    return Latencies(
        len(inside), len(inside) / seconds, sum(size for _, _, size in inside) / seconds / 1e6, rank(ordered, 0.5),
        rank(ordered, 0.99), ordered[-1], pause * 1e3
    )


def by_second(requests, begin):
    """Of each second: (second since `begin`, [sorted latencies], MB)."""
    slots = {}
    for at, took, size in requests:
        slots.setdefault(int(at - begin), []).append((took, size))
    return [
        (second, sorted(took for took, _ in slot), sum(size for _, size in slot) / 1e6)
        for second, slot in sorted(slots.items())
    ]


def host_of(arguments):
    """The host whose process was started with these arguments; None where it is another process."""
    found = re.search(r"/(host\d+)/host\.toml", arguments)
    return found and found.group(1)


def host_pids(folder):
    """{host: process id} of the hosts of the cluster in that folder that run in processes of their own."""
    found = {}
    for pid in processes("gabion", folder):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                host = host_of(file.read().replace("\0", " "))
        except OSError:
            continue
        if host:
            found[host] = pid
    return found


def status_bytes(pid, name):
    """A field of /proc/PID/status that is in kB (VmRSS, VmHWM); None where the process is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return None


class Memory(threading.Thread):
    """Resident memory of every host's process four times a second, and the kernel's own count of the most."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder = folder
        self.samples = {}
        self.peaks = {}
        self.is_over = threading.Event()
        # What was held before this run is none of it.
        for pid in host_pids(folder).values():
            with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")

    def run(self):
        while not self.is_over.wait(SAMPLE_SECONDS):
            for host, pid in host_pids(self.folder).items():
                now, peak = status_bytes(pid, "VmRSS"), status_bytes(pid, "VmHWM")
                if now is not None and peak is not None:
                    self.samples.setdefault(host, []).append((time.time(), now))
                    self.peaks[host] = max(self.peaks.get(host, 0), peak)

    def end(self):
        self.is_over.set()
        self.join()

    def median(self, host, phase):
        """Of what the host's process held in the phase; None where it did not run."""
        held = [size for at, size in self.samples.get(host, []) if phase.begin <= at < phase.end]
        return statistics.median(held) if held else None


def phase_marks(phases, begin):
    """Settings for a plot: a line where each phase but the first begins."""
    seconds = (phase.begin - begin for phase in phases[1:])
    return [f"set arrow from {at:.1f}, graph 0 to {at:.1f}, graph 1 nohead lc rgb '#999999' dt 2" for at in seconds]
