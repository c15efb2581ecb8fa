# SPDX-License-Identifier: Apache-2.0
"""What the file system itself makes somebody wait who has nothing to do with the cluster.

A thread writes 4 KiB durably to a file of its own, beside the cluster's files, every few milliseconds. Where this file
waits as long as the cluster's clients do, the file system or the disk under it is what holds them up.
"""
import mmap
import os
import threading
import time

BLOCK = 4096
FILE_BYTES = 64 << 20
REST_SECONDS = 0.002


class Beside(threading.Thread):
    """`requests` is as a client's log: (second at which it ended, milliseconds that it took, bytes)."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.requests = []
        self.is_over = threading.Event()
        self.error = None

    def run(self):
        try:
            self.write_all()
        except OSError as error:
            self.error = error

    def write_all(self):
        buffer = mmap.mmap(-1, 1 << 20)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        try:
            # Later writes allocate nothing.
            for offset in range(0, FILE_BYTES, len(buffer)):
                os.pwrite(file, buffer, offset)
            os.fsync(file)
            block = memoryview(buffer)[:BLOCK]
            offset = 0
            while not self.is_over.wait(REST_SECONDS):
                begin = time.monotonic()
                os.pwrite(file, block, offset)
                os.fdatasync(file)
                self.requests.append((time.time(), (time.monotonic() - begin) * 1e3, BLOCK))
                offset = (offset + BLOCK) % FILE_BYTES
        finally:
            os.close(file)

    def end(self):
        """The log; raises OSError where a write failed."""
        self.is_over.set()
        self.join()
        if self.error:
            raise self.error
        return self.requests
