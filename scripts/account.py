# SPDX-License-Identifier: Apache-2.0
"""What a load cost between two moments: the time of its writes by stage, the requests to devices by kind, the
processors. The hosts measure stages (`gabion host show`) and count requests (`gabion group show`) themselves; the
kernel counts what it sent to the disk, and how long threads waited for a processor. Beside each other they must agree.
"""
import os

# What the kernel counts as one of these, for each kind that the hosts count.
READS = ("log_read", "pages_read", "read_back")
WRITES = ("commits", "blocks", "records", "heads", "pages_written", "map_pages", "rows")
# Requests that begin on one host and are waited for on others come first.
STAGES = ("request", "turn", "copy here", "copy there", "append", "commit")


def run_queue_seconds(pids):
    """How long all threads of these processes were ready and had no processor, so far."""
    waited = 0
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    waited += int(file.read().split()[1])
            except (OSError, IndexError):
                continue  # it has just ended
    return waited / 1e9


def stages_of(status):
    """{stage: (measured, microseconds together)} of all hosts."""
    totals = {}
    for host in status.get("writes", []):
        for stage in host["stages"]:
            measured, micros = totals.get(stage["stage"], (0, 0.0))
            of_host = stage["measured"]
            totals[stage["stage"]] = (measured + of_host, micros + of_host * stage["mean_us"])
    return totals


def requests_of(groups):
    """{kind: requests} of all these disk groups."""
    totals = {}
    for group in groups:
        for kind, count in group["requests"].items():
            totals[kind] = totals.get(kind, 0) + count
    return totals


def slowest_request_ms(cluster):
    """Milliseconds of the slowest request to any device in the hosts' last window (10 s)."""
    devices = [device for group in cluster.ask("status")["groups"] for device in group["devices"]]
    kinds = ("reads", "writes", "durable")
    return max((device["latency"][kind]["max_us"] for device in devices for kind in kinds), default=0) / 1000


class Moment:
    """What was counted until now."""

    def __init__(self, cluster, pids):
        status = cluster.ask("status")
        self.stages = stages_of(status)
        self.requests = requests_of(status["groups"])
        self.run_queue = run_queue_seconds(pids)


def stage_means(before, after):
    """{stage: mean microseconds} of what was measured in between."""
    means = {}
    for stage in STAGES:
        first, last = before.stages.get(stage, (0, 0.0)), after.stages.get(stage, (0, 0.0))
        if last[0] > first[0]:
            means[stage] = (last[1] - first[1]) / (last[0] - first[0])
    return means


def requests_each(before, after, writes):
    """{kind: requests for each of so many writes}."""
    return {kind: (count - before.requests.get(kind, 0)) / writes for kind, count in after.requests.items()}


def beside_kernel(each, kernel):
    """The kernel's reads, writes and flushes for each write, and those that the hosts did not count."""
    if not kernel:
        return "the kernel's own counters are not known here"
    counted = {
        "reads": sum(each.get(kind, 0) for kind in READS),
        "writes": sum(each.get(kind, 0) for kind in WRITES),
        # A commit is durable when it is answered: the file system flushes for it.
        "flushes": each.get("flushes", 0) + each.get("commits", 0),
    }
    # Adding zero turns a rounded -0.0 into 0.0.
    missing = {name: round(kernel[name] - counted[name], 2) + 0.0 for name in counted if name in kernel}
    parts = [f"{kernel[name]:.2f} {name} ({count:+.2f})" for name, count in missing.items()]
    return "the kernel's, and what the hosts did not count of them: " + ", ".join(parts)


def text(before, after, writes, kernel):
    """All of it, for so many client writes in between."""
    means = stage_means(before, after)
    each = requests_each(before, after, writes)
    kinds = sorted(((count, kind) for kind, count in each.items() if count >= 0.0005), reverse=True)
    waited = (after.run_queue - before.run_queue) / writes * 1e6
    return (
        "time of a write, mean us, each within the one before it: "
        + (", ".join(f"{stage} {mean:.0f}" for stage, mean in means.items()) or "not known")
        + f"; hosts' threads waited {waited:.1f} us for a processor. Device requests for each client write: "
        + ", ".join(f"{count:.3f} {kind}" for count, kind in kinds)
        + "; " + beside_kernel(each, kernel)
    )
