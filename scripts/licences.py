#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the licences and notices of what is a part of `gabion`, crates and packages of its page: most ask that these
go with a program.

Reads the sources that cargo and npm have on this machine. Equal texts are printed once."""
import json
import os
import re
import subprocess
import sys

NOTICE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def linked(metadata, program):
    """Ids of the packages that a program is linked of: what it depends on, but for tests and builds."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    found, left = set(), [one for one in nodes if names[one] == program]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        deps = nodes[one]["deps"]
        left += [dep["pkg"] for dep in deps if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return found


def texts(folder):
    """Contents of the files in a crate's folder that are licences or notices."""
    files = sorted(name for name in os.listdir(folder) if NOTICE.match(name))
    for path in (os.path.join(folder, name) for name in files):
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                yield "\n".join(line.rstrip() for line in file.read().strip().splitlines())


def of_page(page):
    """Name, version, licence and texts of each package that the built page has code of; none where it is not built."""
    if not os.path.isdir(os.path.join(page, "dist")):
        return
    with open(os.path.join(page, "package-lock.json"), encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    for path, entry in packages.items():
        if path and not entry.get("dev"):
            name = path.rpartition("node_modules/")[2]
            yield name, entry["version"], entry["license"], texts(os.path.join(page, path))


def report(crates):
    """Lines: what is linked, then each text with the crates that have it."""
    lines, owners = ["What is linked into gabion, and under which licences:", ""], {}
    for name, version, licence, contents in crates:
        lines.append(f"  {name} {version}: {licence}")
        for content in contents:
            owners.setdefault(content, []).append(name)
    for content, names in owners.items():
        lines += ["", "-" * 78, "Of " + ", ".join(sorted(set(names))) + ":", "", content]
    return lines


def main():
    rustc = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    target = re.search(r"^host: (.*)$", rustc, re.MULTILINE).group(1)
    call = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
    ids = linked(metadata, "cli")
    found = [crate for crate in metadata["packages"] if crate["id"] in ids and crate["source"]]
    found.sort(key=lambda crate: (crate["name"], crate["version"]))
    folders = (os.path.dirname(crate["manifest_path"]) for crate in found)
    told = ((crate["name"], crate["version"], crate["license"], texts(at)) for crate, at in zip(found, folders))
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "page")
    print("\n".join(report([*told, *of_page(page)])))


if __name__ == "__main__":
    sys.exit(main())
