#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts how often some bytes pass a network interface, until it is told to stop. Needs root.

usage: sniff.py INTERFACE TEXT

Says "listening" once it does. On SIGTERM it takes what passed before, and says how often TEXT did.
"""

import contextlib
import signal
import socket
import sys
import time

ETH_P_ALL = 3
FRAME_MAX = 1 << 17
FRAMES_MAX = 100_000
# How long what passed before is still taken in.
REST_S = 0.5


def main():
    """Counts."""
    interface, text = sys.argv[1], sys.argv[2].encode()
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    sniffer.bind((interface, 0))
    sniffer.settimeout(REST_S)
    ends = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(time.monotonic() + REST_S))
    print("listening", flush=True)
    count = frames = 0
    while frames < FRAMES_MAX and not (ends and time.monotonic() > ends[0]):
        with contextlib.suppress(TimeoutError):
            count += sniffer.recv(FRAME_MAX).count(text)
            frames += 1
    print(f"{count} times in {frames} frames", flush=True)


if __name__ == "__main__":
    main()
