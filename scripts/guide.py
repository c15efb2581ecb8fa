#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a block of docs/clients.md that is marked `<!-- run: NAME -->` or `<!-- file: NAME -->`.

usage: guide.py NAME [FROM=TO ...]   each FROM in the block is replaced: paths and addresses of the place it runs at
"""
import pathlib
import re
import sys

GUIDE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "clients.md"


def block(text, name, changes=()):
    found = re.search(rf"<!-- (?:run|file): {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.S)
    if not found:
        raise SystemExit(f"guide.py: no block '{name}' in {GUIDE.name}")
    lines = found.group(1)
    for old, new in changes:
        lines = lines.replace(old, new)
    return lines


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    pairs = [change.split("=", 1) for change in sys.argv[2:]]
    print(block(GUIDE.read_text(), sys.argv[1], pairs), end="")
