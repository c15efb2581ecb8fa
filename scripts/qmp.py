#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells a QEMU what to do: each argument is one command of its monitor; their output is printed.

usage: qmp.py SOCKET COMMAND...      for example: qmp.py qmp.sock "info block" 'qemu-io disk0 "read -P 7 0 4k"'
"""
import json
import socket
import sys


def main(path, commands):
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(90)
    link.connect(path)
    lines = link.makefile("rw")
    json.loads(lines.readline())  # the greeting

    def ask(command, **arguments):
        lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        lines.flush()
        while True:
            answer = json.loads(lines.readline())
            if "error" in answer:
                raise SystemExit(f"qmp.py: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    ask("qmp_capabilities")
    for command in commands:
        print(ask("human-monitor-command", **{"command-line": command}), end="")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2:])
