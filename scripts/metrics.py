#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/metrics.sh needs beside Prometheus.

    metrics.py port                        a TCP port of this machine that is free
    metrics.py load URI                    requests of a known number and size; prints a line for each kind of them
    metrics.py wait PROMETHEUS QUERY VALUE waits until Prometheus answers QUERY with one sample of VALUE
    metrics.py targets PROMETHEUS          fails with the error of a target that has one
    metrics.py commands ALERTS             fails where an alert names a command that there is none of; with GABION set
"""
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

WAIT_SECONDS_MAX = 30
BLOCK = 4096


def port():
    """Free now; whoever takes it next is quick."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def load(uri):
    """Returns what it did: requests and bytes by operation."""
    import nbd  # it is there for Debian's python3 only

    handle = nbd.NBD()
    handle.connect_uri(uri)
    for block in range(100):
        handle.pwrite(b"\x5a" * BLOCK, block * BLOCK)
    handle.pwrite(b"\xa5" * (1 << 20), 8 << 20)
    for block in range(30):
        assert handle.pread(BLOCK, block * BLOCK) == b"\x5a" * BLOCK
    for _ in range(5):
        handle.trim(1 << 20, 32 << 20)
    handle.flush()
    handle.flush()
    handle.shutdown()
    return {
        "write": (101, 100 * BLOCK + (1 << 20)),
        "read": (30, 30 * BLOCK),
        "discard": (5, 5 << 20),
        "flush": (2, 0),
    }


def ask(server, path):
    with urllib.request.urlopen(server + path, timeout=10) as answer:
        return json.load(answer)["data"]


def samples(server, query):
    """The values that a query has now."""
    found = ask(server, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))["result"]
    return [float(sample["value"][1]) for sample in found]


def wait(server, query, value):
    end = time.monotonic() + WAIT_SECONDS_MAX
    while (found := samples(server, query)) != [float(value)]:
        if time.monotonic() > end:
            sys.exit(f"{query} is {found}, and not {value}")
        time.sleep(0.2)


def targets(server):
    active = ask(server, "/api/v1/targets")["activeTargets"]
    errors = [f"{one['scrapeUrl']}: {one['lastError']}" for one in active if one["lastError"]]
    if errors or not active:
        sys.exit(f"{len(active)} targets: {errors}")


def words(command):
    """The words of a command before its arguments: `gabion volume list` of `gabion volume list --health red`."""
    found = []
    for word in command.split()[1:]:
        if not re.fullmatch("[a-z-]+", word) or word.startswith("-"):
            break
        found.append(word)
    return found


def commands(file):
    with open(file, encoding="ascii") as text:
        found = re.findall(r'^ *command: "(gabion .*)"$', text.read(), re.MULTILINE)
    for command in found:
        said = subprocess.run([os.environ["GABION"], *words(command), "--help"], capture_output=True, text=True)
        flags = re.findall(r"--[a-z-]+", command)
        if said.returncode or not words(command) or any(flag not in said.stdout for flag in flags):
            sys.exit(f"there is no '{command}': {said.stderr}")
    if len(found) < 10:
        sys.exit(f"{file} has {len(found)} commands")


def main():
    name, *rest = sys.argv[1:] or [""]
    match name:
        case "port":
            print(port())
        case "load":
            for operation, (requests, size) in load(*rest).items():
                print(operation, requests, size)
        case "wait" | "targets" | "commands":
            globals()[name](*rest)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
