#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random asynchronous I/O through libnbd, over several connections, against a model of the volume.

usage: aio.py URI [CONNECTIONS] [REQUESTS] [SEED]
Reads, writes with and without FUA, zeroes and trims of 512 bytes to 256 KiB, 32 of them under way per connection; what
overlaps a request under way waits for it. Each read is compared with the model, and all of it at the end.
"""
import random
import sys

import nbd

SIZE = 32 << 20
DEPTH = 32


class Load:
    def __init__(self, uri, connections, requests, seed):
        self.random, self.model, self.left = random.Random(seed), bytearray(SIZE), requests
        self.busy, self.handles, self.done = {}, [], 0
        for _ in range(connections):
            handle = nbd.NBD()
            handle.connect_uri(uri)
            self.handles.append(handle)
        assert connections == 1 or self.handles[0].can_multi_conn(), "no CAN_MULTI_CONN"
        self.handles[0].zero(SIZE, 0)

    def is_free(self, start, end):
        return all(end <= s or e <= start for s, e in self.busy.values())

    def begin(self, handle):
        length = 512 * self.random.choice((1, 1, 7, 8, 8, 8, 64, 512))
        start = 512 * self.random.randrange((SIZE - length) // 512 + 1)
        if not self.is_free(start, start + length):
            return
        self.left -= 1
        number = self.left
        self.busy[number] = (start, start + length)
        kind = self.random.choice("rrrwwwfzt")
        flags = nbd.CMD_FLAG_FUA if kind == "f" else 0
        buffer = None
        if kind == "r":
            buffer = nbd.Buffer(length)
        elif kind in "wf":
            data = self.random.randbytes(length)
            self.model[start:start + length] = data
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
        else:
            self.model[start:start + length] = bytes(length)

        def completed(error):
            assert getattr(error, "value", error) == 0, f"request at {start}: error {error}"
            if kind == "r":
                assert buffer.to_bytearray() == self.model[start:start + length], f"wrong bytes at {start}"
            del self.busy[number]
            self.done += 1
            return 1

        if kind == "r":
            handle.aio_pread(buffer, start, completion=completed)
        elif kind in "wf":
            handle.aio_pwrite(buffer, start, completion=completed, flags=flags)
        elif kind == "z":
            handle.aio_zero(length, start, completion=completed)
        else:
            handle.aio_trim(length, start, completion=completed)

    def run(self):
        while self.left > 0 or self.busy:
            for handle in self.handles:
                for _ in range(DEPTH - handle.aio_in_flight()):
                    if self.left > 0:
                        self.begin(handle)
                handle.poll(0 if len(self.handles) > 1 else 100)
        self.handles[-1].flush()
        at = 0
        while at < SIZE:
            assert self.handles[0].pread(1 << 20, at) == self.model[at:at + (1 << 20)], f"wrong at the end: {at}"
            at += 1 << 20
        for handle in self.handles:
            handle.shutdown()
        print(f"note: {self.done} requests over {len(self.handles)} connection(s)")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    numbers = [int(text) for text in sys.argv[2:]] + [1, 4000, 1][len(sys.argv) - 2:]
    Load(sys.argv[1], *numbers).run()
