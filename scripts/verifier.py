#!/usr/bin/python3
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

libnbd speaks to the server. It sends each request once, in order, and keeps nothing, so what it calls answered was
answered before the connection broke. It is there for Debian's python3 only.

One JSON line on standard output; exit code 1 for a lost, torn or foreign block or an I/O error.
"""
import argparse
import array
import errno
import json
import os
import random
import signal
import struct
import sys
import time

import nbd

BLOCK = 4096
RECORD = struct.Struct("<8sQQQ")
MAGIC = b"GABIONVF"
# Blocks of one write: mostly small, as virtual machines write, sometimes up to 64 KiB.
LENGTHS = [1, 1, 1, 1, 2, 4, 16]
READ, WRITE = "a read", "a write"
READ_SHARE = 0.25
CHECK_BLOCKS = 64
CONNECT_SECONDS_MAX = 30
# A host that stands still does not answer a handshake.
HANDSHAKE_SECONDS_MAX = 10
ANSWER_SECONDS_MAX = 90
CLOSE_SECONDS_MAX = 10
# The longest wait for one event: so soon a load sees that its time is over.
POLL_MS_MAX = 100
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


class Broken(Exception):
    """The connection ended: requests without an answer may or may not have happened."""


class Client:
    """One connection, many requests under way. Answers arrive in `poll` and nowhere else."""

    def __init__(self, uri):
        self.handle = nbd.NBD()
        self.handle.set_request_structured_replies(False)
        self.call(self.handle.aio_connect_uri, uri)
        self.wait(self.handle.aio_is_ready, HANDSHAKE_SECONDS_MAX)
        if not self.handle.aio_is_ready():
            raise Broken(f"no handshake within {HANDSHAKE_SECONDS_MAX} s")
        self.size = self.handle.get_size()

    def call(self, function, *arguments, **named):
        try:
            return function(*arguments, **named)
        except nbd.Error as error:
            raise Broken(error.string) from error

    def read(self, offset, length, on_done):
        """`on_done(errno, content)` once there is an answer: errno 0 is success."""
        buffer = nbd.Buffer(length)
        completed = self.completion(lambda number: on_done(number, b"" if number else bytes(buffer.to_bytearray())))
        self.call(self.handle.aio_pread, buffer, offset, completion=completed)

    def write(self, offset, payload, on_done):
        """`on_done(errno)` once there is an answer."""
        buffer = nbd.Buffer.from_bytearray(bytearray(payload))
        self.call(self.handle.aio_pwrite, buffer, offset, completion=self.completion(on_done))

    @staticmethod
    def completion(on_answer):
        def completed(error):
            # What the end of a connection leaves without an answer; no server sends this number.
            number = getattr(error, "value", error)
            if number != errno.ENOTCONN:
                on_answer(number)
            return 1

        return completed

    def poll(self, milliseconds=POLL_MS_MAX):
        """Waits for one event, at most so long, and tells of the answers in it."""
        self.call(self.handle.poll, milliseconds)
        if self.handle.aio_is_dead() or self.handle.aio_is_closed():
            raise Broken("connection closed")

    def wait(self, is_done, seconds):
        """Polls until `is_done`, at most so long."""
        end = time.monotonic() + seconds
        while not is_done() and time.monotonic() < end:
            self.poll()

    def close(self):
        """Says goodbye; what is still under way is completed by the server first."""
        try:
            self.call(self.handle.aio_disconnect)
            self.wait(lambda: False, CLOSE_SECONDS_MAX)
        except Broken:
            pass


def connect(uri):
    """A host that has just started may need a moment; how long it took is reported."""
    begin = time.monotonic()
    while True:
        try:
            return Client(uri), time.monotonic() - begin
        except Broken as error:
            if time.monotonic() - begin > CONNECT_SECONDS_MAX:
                sys.exit(f"verifier: cannot connect to {uri}: {error}")
            time.sleep(0.05)


class Load:
    """A closed loop of writes and reads that never touch a block twice at the same time."""

    def __init__(self, arguments):
        self.state = State(arguments.state, arguments.mib * 256)
        self.random = random.Random(arguments.seed)
        self.depth = arguments.depth
        self.under_way = 0
        self.busy = set()
        self.broken = None
        self.faults = []
        self.latencies = array.array("d")
        # Of each request: second of its end, milliseconds, bytes. Numbers alone: a list of tuples grows, and Python's
        # collector walks all of it every so often, which looks like a pause of the cluster.
        self.log = array.array("d")
        self.end = 0.0
        self.writes = 0
        self.last_done = time.monotonic()
        self.stall = 0.0
        self.client, self.connect_seconds = connect(arguments.uri)
        if self.client.size < len(self.state.allowed) * BLOCK:
            sys.exit("verifier: the volume is smaller than --mib")

    def answered(self, request, error, payload=b""):
        now = time.monotonic()
        kind, first, count, sequence, begin = request
        self.under_way -= 1
        self.stall = max(self.stall, now - max(self.last_done, begin))
        self.last_done = now
        self.latencies.append(now - begin)
        self.log.extend((time.time(), (now - begin) * 1e3, count * BLOCK))
        blocks = range(first, first + count)
        self.busy.difference_update(blocks)
        if error:
            self.faults.append(f"errno {error} for {kind} at block {first}")
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
        first, count = self.choose()
        kind = READ if self.random.random() < READ_SHARE else WRITE
        blocks = range(first, first + count)
        self.busy.update(blocks)
        self.under_way += 1
        if kind == READ:
            request = (kind, first, count, 0, time.monotonic())
            self.client.read(first * BLOCK, count * BLOCK, lambda *answer: self.answered(request, *answer))
            return
        self.state.sequence += 1
        # From now on either may be found, until the answer decides.
        for block in blocks:
            self.state.allowed[block] = [*self.state.allowed[block], self.state.sequence]
        payload = b"".join(content(block, self.state.sequence) for block in blocks)
        request = (kind, first, count, self.state.sequence, time.monotonic())
        self.client.write(first * BLOCK, payload, lambda *answer: self.answered(request, *answer))

    def run(self, seconds):
        self.end = time.monotonic() + seconds
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "end", 0.0))
        try:
            while time.monotonic() < self.end and not self.faults:
                if self.under_way < self.depth:
                    self.start_one()
                # With room for another request, what is there already is enough.
                self.client.poll(0 if self.under_way < self.depth else POLL_MS_MAX)
            self.client.wait(lambda: not self.under_way, ANSWER_SECONDS_MAX)
        except Broken as error:
            self.broken = str(error)
            return
        if self.under_way:
            self.faults.append(f"{self.under_way} requests without an answer for {ANSWER_SECONDS_MAX} s")
        else:
            self.client.close()


def load(arguments):
    run = Load(arguments)
    run.run(arguments.seconds)
    run.state.save()
    if run.broken and not arguments.may_break:
        run.faults.append(f"connection broke: {run.broken}")
    if arguments.log:
        with open(arguments.log, "w", encoding="ascii") as file:
            fields = iter(run.log)
            file.writelines(f"{at:.6f}, {took:.3f}, {size:.0f}\n" for at, took, size in zip(fields, fields, fields))
    ordered = sorted(run.latencies) or [0.0]
    return run.faults, {
        "requests": len(run.latencies),
        "writes_acknowledged": run.writes,
        "undecided_blocks": sum(len(allowed) > 1 for allowed in run.state.allowed),
        "broke": run.broken is not None,
        "connect_ms": round(run.connect_seconds * 1e3, 1),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 2),
        "longest_stall_ms": round(run.stall * 1e3, 1),
    }


def check(arguments):
    state = State(arguments.state, arguments.mib * 256)
    begin = time.monotonic()
    client, seconds = connect(arguments.uri)
    faults = []
    first_io = None
    for first in range(0, len(state.allowed), CHECK_BLOCKS):
        count = min(CHECK_BLOCKS, len(state.allowed) - first)
        answers = []
        try:
            client.read(first * BLOCK, count * BLOCK, lambda *answer: answers.append(answer))
            client.wait(lambda: answers, ANSWER_SECONDS_MAX)
        except Broken as broken:
            sys.exit(f"verifier: connection broke during the check: {broken}")
        if not answers:
            sys.exit(f"verifier: no answer to a read for {ANSWER_SECONDS_MAX} s")
        error, payload = answers.pop()
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
