# SPDX-License-Identifier: Apache-2.0
"""`./dev scale --requests`: requests to capacity for each destaged block, over pages touched to pages in memory.

Uniform random writes of 4 KiB, simulated: the same on each machine. All limits but the segments' size are a part of
production's, so that what would be a terabyte there fits the memory of a simulation (11 GB): what decides is how
many blocks half a journal has for each page in memory, and that is the same in all parts.
"""
import json
import os
import subprocess

from measure import say
from plot import Line, Panel, draw, script

# Of production: 16 MiB of checksum pages, and the journal.
BUDGET_PAGES = 4096
JOURNAL_KIB = 64 << 10
SEGMENT_KIB = 2 << 10
RATIOS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
# A page of the device is about so much.
PAGE_GIB = 3 / 1024
# {highest ratio: the part of production's limits that is simulated up to there}
PARTS = {10: 8, 20: 32, 100: 128}
# What is asked: the ratio, and requests per block at most.
ASKED = [(1, 1.02), (20, 1.15)]
KINDS = ["blocks", "records", "pages_read", "pages_written", "map_pages", "rows", "read_back", "flushes"]


def measure(program, ratio):
    part = next(part for highest, part in sorted(PARTS.items()) if ratio <= highest)
    say(f"scale: requests at a ratio of {ratio:g}, limits at 1/{part} of production's")
    budget = BUDGET_PAGES // part
    numbers = (budget, JOURNAL_KIB // part, SEGMENT_KIB, round(budget * ratio))
    command = [program, *map(str, numbers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def table(found):
    lines = ["| pages touched / in memory | region at production's size | all | " + " | ".join(
        kind.replace("_", " ") for kind in KINDS) + " |", "|---" * (len(KINDS) + 3) + "|"]
    for ratio, each in found:
        region = BUDGET_PAGES * ratio * PAGE_GIB
        cells = " | ".join(f"{each[kind]:.4f}" for kind in KINDS)
        lines.append(f"| {ratio:g} | {region:,.0f} GiB | **{each['all']:.3f}** | {cells} |")
    return lines


def plot(found):
    def line(name, kind):
        return Line(name, [(ratio, each[kind]) for ratio, each in found])

    settings = ["set logscale x", "set xrange [0.1:100]"]
    axis = "pages touched / pages in memory"
    panels = [
        Panel("requests to capacity per destaged block", [line("measured", "all"), Line("asked", ASKED)],
              axis, "", [*settings, "set yrange [0.9:*]"]),
        Panel("of them", [line("pages written", "pages_written"), line("pages read", "pages_read"),
                          line("read back", "read_back"), line("map pages", "map_pages")], axis, "", settings),
    ]
    return script("Uniform random 4 KiB writes, destaged", panels, 2, 1200, 460, "linespoints")


def requests_curve(programs, prefix):
    """Prints the table; with a prefix it goes to PREFIX.md, and the plot to PREFIX.svg."""
    program = os.path.join(programs, "requests")
    found = [(ratio, measure(program, ratio)) for ratio in RATIOS]
    parts = ", ".join(f"1/{part} up to a ratio of {highest}" for highest, part in sorted(PARTS.items()))
    text = "\n".join([f"Limits as a part of production's: {parts}.", "", *table(found)]) + "\n"
    print(text, end="")
    if prefix:
        draw(prefix + ".svg", plot(found))
        with open(prefix + ".md", "w", encoding="utf-8") as file:
            name = os.path.basename(prefix)
            file.write(f"# One run of `./dev scale --requests`\n\n![requests per destaged block]({name}.svg)\n\n{text}")
        say(f"wrote {prefix}.md and {prefix}.svg")
