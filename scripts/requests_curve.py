# SPDX-License-Identifier: Apache-2.0
"""`./dev scale --requests`: requests to capacity for each destaged block, over pages touched to pages in memory.

Uniform random writes of 4 KiB, simulated: the same on each machine. All limits are an eighth of production's, so that
what would be a terabyte there fits a simulation: 2 MiB of checksum pages, 2,048 pages with pending changes, a journal
of 8 MiB, segments of 2 MiB. A second curve has no limit of pages with pending changes: the journal alone decides.
"""
import json
import os
import subprocess

from measure import say
from plot import Line, Panel, draw, script

BUDGET_PAGES = 512
PENDING_PAGES = 2048
JOURNAL_KIB = 8 << 10
SEGMENT_KIB = 2 << 10
NO_LIMIT = 1_000_000
RATIOS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
# Below, the limit of pages is never met.
FREE_FROM = 2
# A page of the device is about so much.
PAGE_GIB = 3 / 1024
SCALE = 8
# What is asked: the ratio, and requests per block at most.
ASKED = [(1, 1.02), (20, 1.15)]
KINDS = ["blocks", "records", "pages_read", "pages_written", "map_pages", "rows", "read_back", "flushes"]


def measure(program, ratio, pending):
    region = round(BUDGET_PAGES * ratio)
    say(f"scale: requests at a ratio of {ratio:g}, {pending:,} pages pending at most")
    command = [program, *map(str, (BUDGET_PAGES, pending, JOURNAL_KIB, SEGMENT_KIB, region))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def table(found):
    lines = ["| pages touched / in memory | region at production's size | all | " + " | ".join(
        kind.replace("_", " ") for kind in KINDS) + " |", "|---" * (len(KINDS) + 3) + "|"]
    for ratio, each in found:
        region = BUDGET_PAGES * SCALE * ratio * PAGE_GIB
        cells = " | ".join(f"{each[kind]:.4f}" for kind in KINDS)
        lines.append(f"| {ratio:g} | {region:,.0f} GiB | **{each['all']:.3f}** | {cells} |")
    return lines


def plot(limited, free):
    def line(name, found, kind="all"):
        return Line(name, [(ratio, each[kind]) for ratio, each in found])

    settings = ["set logscale x", "set xrange [0.1:100]", "set yrange [0.9:*]"]
    panels = [
        Panel("requests to capacity per destaged block", [
            line("as in production", limited), line("the journal alone decides", free),
            Line("asked", ASKED)], "pages touched / pages in memory", "", settings),
        Panel("of them, as in production", [
            line("pages written", limited, "pages_written"), line("pages read", limited, "pages_read"),
            line("read back", limited, "read_back"), line("map pages", limited, "map_pages")],
            "pages touched / pages in memory", "", ["set logscale x", "set xrange [0.1:100]"]),
    ]
    return script("Uniform random 4 KiB writes, destaged", panels, 2, 1200, 460, "linespoints")


def requests_curve(programs, prefix):
    """Prints both tables; with a prefix they go to PREFIX.md, and the plot to PREFIX.svg."""
    program = os.path.join(programs, "requests")
    limited = [(ratio, measure(program, ratio, PENDING_PAGES)) for ratio in RATIOS]
    free = [(ratio, measure(program, ratio, NO_LIMIT)) for ratio in RATIOS if ratio >= FREE_FROM]
    lines = ["As in production, an eighth of all limits:", "", *table(limited), "",
             "Without a limit of pages with pending changes, so that the journal alone decides:", "", *table(free)]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if prefix:
        draw(prefix + ".svg", plot(limited, free))
        with open(prefix + ".md", "w", encoding="utf-8") as file:
            name = os.path.basename(prefix)
            file.write(f"# One run of `./dev scale --requests`\n\n![requests per destaged block]({name}.svg)\n\n{text}")
        say(f"wrote {prefix}.md and {prefix}.svg")
