#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes that are remembered: a load that knows what must be there afterwards, and the check.

    verifier.py load  --uri URI --state FILE --seconds S [--depth 16] [--mib 64] [--may-break] [--log FILE]
    verifier.py check --uri URI --state FILE

Every 4 KiB block carries its number and the sequence number of the write that made it, repeated
through the block. The state says for each block which sequence numbers may be found: one after an
answer; the old one or the new one when the connection broke first. `check` accepts nothing else, and then
narrows the state to what it saw: a value seen once must never be un-seen. A block that holds two
writes at once is torn, and reported: a write of one aligned block is atomic.

SIGTERM ends a load as its time does. The log has a line for each request: second of its end, milliseconds, bytes.

One JSON line on standard output; exit code 1 for a lost, torn or foreign block or an I/O error.
"""
import argparse
import array
import json
import os
import random
import signal
import struct
import sys
import threading
import time

from nbd_client import READ, WRITE, Broken, Client, Refused

BLOCK = 4096
RECORD = struct.Struct("<8sQQQ")
MAGIC = b"GABIONVF"
# Blocks of one write: mostly small, as virtual machines write, sometimes up to 64 KiB.
LENGTHS = [1, 1, 1, 1, 2, 4, 16]
READ_SHARE = 0.25
CHECK_BLOCKS = 64
CONNECT_SECONDS_MAX = 30
REPORTED_MAX = 10


def content(block, sequence):
    if sequence == 0:
        return bytes(BLOCK)
    return RECORD.pack(MAGIC, block, sequence, block ^ sequence) * (BLOCK // RECORD.size)


def verdict(block, data, allowed):
    """(sequence found, None) or (None, what is wrong)."""
    for sequence in allowed:
        if data == content(block, sequence):
            return sequence, None
    seen = set()
    for at in range(0, BLOCK, RECORD.size):
        magic, number, sequence, _ = RECORD.unpack_from(data, at)
        seen.add((number, sequence) if magic == MAGIC else ("foreign", magic.hex()))
    kind = "torn" if len(seen) > 1 else "wrong"
    some = sorted(map(str, seen))[:4]
    return None, f"block {block} is {kind}: holds {', '.join(some)}, allowed {sorted(allowed)}"


class State:
    """What each block may hold. Block numbers index `allowed`; sequence 0 is "never written"."""

    def __init__(self, path, blocks):
        self.path = path
        self.sequence = 0
        self.allowed = [[0] for _ in range(blocks)]
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                saved = json.load(file)
            self.sequence = saved["sequence"]
            self.allowed = saved["allowed"]

    def save(self):
        with open(self.path + ".new", "w", encoding="ascii") as file:
            json.dump({"sequence": self.sequence, "allowed": self.allowed}, file)
        os.replace(self.path + ".new", self.path)


def connect(uri, on_done):
    """A host that has just started may need a moment; how long it took is reported."""
    begin = time.monotonic()
    while True:
        try:
            return Client(uri, on_done), time.monotonic() - begin
        except (Broken, Refused) as error:
            if time.monotonic() - begin > CONNECT_SECONDS_MAX:
                sys.exit(f"verifier: cannot connect to {uri}: {error}")
            time.sleep(0.05)


class Load:
    """A closed loop of writes and reads that never touch a block twice at the same time."""

    def __init__(self, arguments):
        self.state = State(arguments.state, arguments.mib * 256)
        self.random = random.Random(arguments.seed)
        self.depth = arguments.depth
        self.changed = threading.Condition()
        self.flying = {}
        self.busy = set()
        self.early = {}
        self.is_broken = False
        self.is_closing = False
        self.faults = []
        self.latencies = array.array("d")
        # Of each request: second of its end, milliseconds, bytes. Numbers alone: a list of tuples grows, and Python's
        # collector walks all of it every so often, which looks like a pause of the cluster.
        self.log = array.array("d")
        self.end = 0.0
        self.writes = 0
        self.last_done = time.monotonic()
        self.stall = 0.0
        self.client, self.connect_seconds = connect(arguments.uri, self.done)
        if self.client.size < len(self.state.allowed) * BLOCK:
            sys.exit("verifier: the volume is smaller than --mib")

    def done(self, token, error, payload):
        with self.changed:
            if token is None:
                self.is_broken = self.is_broken or not self.is_closing
            elif token in self.flying:
                self.settle(token, error, payload)
            else:
                # The answer was faster than the thread that notes the question.
                self.early[token] = (error, payload)
            self.changed.notify()

    def settle(self, token, error, payload):
        now = time.monotonic()
        kind, first, count, sequence, begin = self.flying.pop(token)
        self.stall = max(self.stall, now - max(self.last_done, begin))
        self.last_done = now
        self.latencies.append(now - begin)
        self.log.extend((time.time(), (now - begin) * 1e3, count * BLOCK))
        blocks = range(first, first + count)
        self.busy.difference_update(blocks)
        if error:
            self.faults.append(f"errno {error} for {'a write' if kind == WRITE else 'a read'} at block {first}")
            return
        for index, block in enumerate(blocks):
            if kind == WRITE:
                self.state.allowed[block] = [sequence]
                continue
            data = payload[index * BLOCK:(index + 1) * BLOCK]
            _, fault = verdict(block, data, self.state.allowed[block])
            if fault:
                self.faults.append("read under load: " + fault)
        self.writes += kind == WRITE

    def choose(self):
        while True:
            count = self.random.choice(LENGTHS)
            first = self.random.randrange(len(self.state.allowed) - count + 1)
            if self.busy.isdisjoint(range(first, first + count)):
                return first, count

    def start_one(self):
        with self.changed:
            first, count = self.choose()
            kind = READ if self.random.random() < READ_SHARE else WRITE
            blocks = range(first, first + count)
            self.busy.update(blocks)
            payload = b""
            if kind == WRITE:
                self.state.sequence += 1
                # From now on either may be found, until the answer decides.
                for block in blocks:
                    self.state.allowed[block] = [*self.state.allowed[block], self.state.sequence]
                payload = b"".join(content(block, self.state.sequence) for block in blocks)
            entry = (kind, first, count, self.state.sequence, time.monotonic())
        token = self.client.submit(kind, first * BLOCK, count * BLOCK, payload)
        with self.changed:
            self.flying[token] = entry
            if token in self.early:
                self.settle(token, *self.early.pop(token))

    def run(self, seconds):
        self.end = time.monotonic() + seconds
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "end", 0.0))
        try:
            while time.monotonic() < self.end and not self.is_broken and not self.faults:
                with self.changed:
                    while len(self.flying) >= self.depth and not self.is_broken:
                        self.changed.wait(timeout=1.0)
                    if self.is_broken:
                        break
                self.start_one()
            with self.changed:
                drained = time.monotonic() + 90
                while self.flying and not self.is_broken and time.monotonic() < drained:
                    self.changed.wait(timeout=1.0)
        except Broken:
            self.is_broken = True
        if self.is_broken:
            self.client.receiver.join(timeout=5)
        elif self.flying:
            self.faults.append(f"{len(self.flying)} requests without an answer for 90 s")
        else:
            self.is_closing = True
            self.client.close()


def load(arguments):
    run = Load(arguments)
    run.run(arguments.seconds)
    run.state.save()
    if run.is_broken and not arguments.may_break:
        run.faults.append(f"connection broke: {run.client.error}")
    if arguments.log:
        with open(arguments.log, "w", encoding="ascii") as file:
            fields = iter(run.log)
            file.writelines(f"{at:.6f}, {took:.3f}, {size:.0f}\n" for at, took, size in zip(fields, fields, fields))
    ordered = sorted(run.latencies) or [0.0]
    return run.faults, {
        "requests": len(run.latencies),
        "writes_acknowledged": run.writes,
        "undecided_blocks": sum(len(allowed) > 1 for allowed in run.state.allowed),
        "broke": run.is_broken,
        "connect_ms": round(run.connect_seconds * 1e3, 1),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 2),
        "longest_stall_ms": round(run.stall * 1e3, 1),
    }


def check(arguments):
    state = State(arguments.state, arguments.mib * 256)
    answers = {}
    changed = threading.Condition()

    def done(token, error, payload):
        with changed:
            answers[token] = (error, payload)
            changed.notify()

    begin = time.monotonic()
    client, seconds = connect(arguments.uri, done)
    faults = []
    first_io = None
    for first in range(0, len(state.allowed), CHECK_BLOCKS):
        count = min(CHECK_BLOCKS, len(state.allowed) - first)
        token = client.submit(READ, first * BLOCK, count * BLOCK)
        with changed:
            if not changed.wait_for(lambda: token in answers or None in answers, timeout=90):
                sys.exit("verifier: no answer to a read for 90 s")
        if token not in answers:
            sys.exit(f"verifier: connection broke during the check: {client.error}")
        error, payload = answers.pop(token)
        first_io = first_io or time.monotonic() - begin
        if error:
            faults.append(f"errno {error} for a read at block {first}")
            continue
        for index in range(count):
            data = payload[index * BLOCK:(index + 1) * BLOCK]
            found, fault = verdict(first + index, data, state.allowed[first + index])
            if fault:
                faults.append(fault)
            else:
                state.allowed[first + index] = [found]
    client.close()
    state.save()
    written = sum(allowed != [0] for allowed in state.allowed)
    return faults, {
        "blocks": len(state.allowed),
        "written": written,
        "connect_ms": round(seconds * 1e3, 1),
        "first_read_ms": round((first_io or 0) * 1e3, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=["load", "check"])
    parser.add_argument("--uri", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--log")
    parser.add_argument("--may-break", action="store_true")
    arguments = parser.parse_args()
    faults, report = load(arguments) if arguments.action == "load" else check(arguments)
    print(json.dumps(report))
    for fault in faults[:REPORTED_MAX]:
        print(f"verifier: {fault}", file=sys.stderr)
    if len(faults) > REPORTED_MAX:
        print(f"verifier: and {len(faults) - REPORTED_MAX} more", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
