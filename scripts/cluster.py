#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Gabion cluster as the scripts see it: start, stop, ask, and find its processes.

Only the documented command line is used. Processes are found by the data folder that they were
started with (GABION_DATA in their environment, or the path among their arguments), never by name
alone: another cluster on the same machine is left in peace.

    cluster.py pids gabion|etcd DATA      process ids, one a line
    cluster.py kill gabion|etcd DATA      SIGKILL to all of them
    cluster.py wait-health VOLUME HEALTH SECONDS     with GABION and GABION_DATA set
    cluster.py field EXPRESSION           standard input as JSON `it`, e.g. it['nbd'][0]
"""
import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

# A command that answers from a living cluster takes milliseconds; creating files of a new one, seconds.
COMMAND_SECONDS_MAX = 120
DOWN_SECONDS_MAX = 15


class Failure(Exception):
    """A command failed; the message is what it said."""


def processes(name, data):
    """Ids of the processes of program `name` that belong to the cluster in folder `data`."""
    data = os.path.realpath(data)
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
        except OSError:
            continue
        # A script's own name comes second, after its interpreter.
        programs = {os.path.basename(argument).decode(errors="replace") for argument in arguments[:2]}
        own = [variable for variable in environment if variable.startswith(b"GABION_DATA=")]
        is_here = any(in_folder(text, data) for text in own + arguments)
        if name in programs and is_here and not is_zombie(entry):
            found.append(int(entry))
    return found


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def in_folder(argument, data):
    path = argument.split(b"=")[-1]
    return path == data.encode() or path.startswith(data.encode() + b"/")


def signal_all(name, data, number):
    """Sends a signal to every process of `name`; returns how many there were."""
    pids = processes(name, data)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    return len(pids)


def cpu_seconds(pids):
    """User and system time of the processes so far; one that is gone counts nothing."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                # The second field is the name in brackets and may hold blanks.
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(pids):
    """Resident memory of the processes together."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                pages += int(file.read().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


class Cluster:
    """One cluster on this machine, stopped for certain when this program ends."""

    def __init__(self, gabion, data):
        self.gabion = os.path.abspath(gabion)
        self.data = os.path.realpath(data)
        self.environment = dict(os.environ, GABION_DATA=self.data)
        self.is_up = False

    def run(self, *arguments):
        """Runs `gabion ARGUMENTS` and returns what it wrote to standard output."""
        done = subprocess.run(
            [self.gabion, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=COMMAND_SECONDS_MAX,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise Failure(f"gabion {' '.join(arguments)}: {said}")
        return done.stdout

    def ask(self, *arguments):
        """The same with `--output json`, parsed."""
        return json.loads(self.run(*arguments, "--output", "json"))

    def up(self, *arguments):
        atexit.register(self.down)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(130))
        self.is_up = True
        self.run("up", "--detach", *arguments)

    def down(self):
        """Stops the cluster: by the command, and what remains of it by force."""
        if not self.is_up:
            return
        self.is_up = False
        try:
            self.run("down")
        except (Failure, OSError, subprocess.SubprocessError) as error:
            print(f"cluster: {error}", file=sys.stderr)
        end = time.monotonic() + DOWN_SECONDS_MAX
        while time.monotonic() < end:
            if not processes("gabion", self.data) and not processes("etcd", self.data):
                return
            time.sleep(0.1)
        for name in ("gabion", "etcd"):
            count = signal_all(name, self.data, signal.SIGKILL)
            if count:
                print(f"cluster: {count} {name} processes outlived `down`: killed", file=sys.stderr)

    def uris(self, volume):
        return self.ask("volume", "show", volume)["nbd"]

    def buffer_fill(self):
        """The fullest write buffer, 0 to 1."""
        return max(group["buffer_fill"] for group in self.ask("status")["groups"])

    def wait_health(self, volume, health, seconds):
        """Seconds until the volume's health was `health`; raises Failure when it did not become so."""
        begin = time.monotonic()
        seen = "nothing"
        while time.monotonic() - begin < seconds:
            try:
                seen = self.ask("volume", "show", volume)["health"]
                if seen == health:
                    return time.monotonic() - begin
            except Failure as error:
                seen = str(error)
            time.sleep(0.1)
        raise Failure(f"volume {volume} is not {health} after {seconds} s: {seen}")


@contextlib.contextmanager
def in_fresh_folder(parent, name, gabion):
    """A cluster that is not up yet, and the new folder with its data; both are gone afterwards."""
    folder = os.path.join(os.path.abspath(parent), name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cluster = Cluster(gabion, os.path.join(folder, "cluster"))
    try:
        yield cluster, folder
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments):
    match arguments:
        case ["pids", name, data]:
            for pid in processes(name, data):
                print(pid)
        case ["kill", name, data]:
            print(signal_all(name, data, signal.SIGKILL))
        case ["wait-health", volume, health, seconds]:
            cluster = Cluster(os.environ["GABION"], os.environ["GABION_DATA"])
            print(f"{cluster.wait_health(volume, health, float(seconds)):.1f}")
        case ["field", expression]:
            # The expression comes from our own scripts.
            print(eval(expression, {"it": json.load(sys.stdin)}))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(f"cluster: {failure}", file=sys.stderr)
        sys.exit(1)
