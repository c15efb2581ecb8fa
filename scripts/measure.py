# SPDX-License-Identifier: Apache-2.0
"""What the measuring scripts share: fio, its results and logs, and what a reader must know to repeat a run."""
import datetime
import json
import os
import platform
import subprocess
import sys

from cluster import Failure

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
FIO_SECONDS_EXTRA_MAX = 180


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def fio(arguments, folder):
    """Starts fio; its result goes to `folder`/fio.json."""
    output = os.path.join(folder, "fio.json")
    if os.path.exists(output):
        os.unlink(output)
    command = ["fio", "--name=bench", "--output-format=json", f"--output={output}", *arguments]
    # What fio leaves behind belongs to the run.
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def fio_job(process, folder, seconds):
    """Waits for fio and reads the job that it ran."""
    try:
        _, said = process.communicate(timeout=seconds + FIO_SECONDS_EXTRA_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failure("fio did not end in time") from None
    if process.returncode != 0:
        raise Failure(f"fio failed: {said.strip() or result_text(folder).strip()[:300]}")
    return fio_result(folder, said)


def fio_result(folder, said=""):
    """The job that fio ran, from its result; `said`: what else it told, for an error."""
    text = result_text(folder)
    if "{" not in text:
        raise Failure(f"fio failed: {said.strip() or text.strip()[:300]}")
    # Warnings may stand before the JSON text.
    return json.loads(text[text.index("{"):])["jobs"][0]


def result_text(folder):
    try:
        with open(os.path.join(folder, "fio.json"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def parse_log(lines, slot_ms):
    """{slot: sum of the values} of a fio log with a mean per `slot_ms`: number n ends at n * slot_ms."""
    slots = {}
    for line in lines:
        fields = [part.strip() for part in line.split(",")]
        if len(fields) >= 2:
            slot = round(int(fields[0]) / slot_ms)
            slots[slot] = slots.get(slot, 0) + int(fields[1])
    return slots


def longest_gap(slots):
    """Number of slots of the longest row that is empty or missing, between the first and the last one."""
    longest = row = 0
    for slot in range(min(slots), max(slots) + 1) if slots else ():
        row = 0 if slots.get(slot) else row + 1
        longest = max(longest, row)
    return longest


def disk_requests(folder):
    """{reads, writes, flushes} that the kernel sent to the block device under `folder` so far; {} where it has none."""
    device = os.stat(folder).st_dev
    try:
        with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.read().split()]
    except OSError:
        return {}
    places = {"reads": 0, "writes": 4, "flushes": 15}
    return {name: fields[place] for name, place in places.items() if place < len(fields)}


def version():
    """Date, commit and machine of a run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"{datetime.date.today()}, commit {commit or 'unknown'}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}"
    )
