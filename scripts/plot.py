# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, drawn by gnuplot: a row or a grid of panels, each with a few lines."""
import subprocess
from dataclasses import dataclass, field

from cluster import Failure

SECONDS_MAX = 60
# What the settings of the panel before have changed.
PLAIN = ["unset logscale", "set xtics autofreq", "set xrange [*:*]", "unset y2tics", "set y2range [*:*]",
         "set yrange [*:*]", "unset arrow"]
COLOURS = ["#0060ad", "#dd181f", "#00a060", "#8a4fbf"]


@dataclass
class Line:
    """Points (x, y) under one name; on the right-hand axis if `is_right`."""

    name: str
    points: list
    is_right: bool = False


@dataclass
class Panel:
    """One pair of axes. `settings` are further commands for gnuplot."""

    title: str
    lines: list
    x: str = ""
    y: str = ""
    settings: list = field(default_factory=list)


def script(title, panels, columns, width, height, style="lines"):
    """What gnuplot is told."""
    rows = -(-len(panels) // columns)
    # Mono-spaced text and no fonts of this machine: the file is the same everywhere.
    text = [f"set terminal svg size {width},{height} font 'sans-serif,11' background 'white'", "set grid"]
    text += ["set key outside below horizontal", "set tics nomirror"]
    text += [f"set multiplot layout {rows},{columns} title '{title}'"]
    for panel in panels:
        text += [f"set title '{panel.title}'", f"set xlabel '{panel.x}'", f"set ylabel '{panel.y}'"]
        text += [*PLAIN, *panel.settings]
        drawn = []
        for number, line in enumerate(line for line in panel.lines if line.points):
            text += [f"$line{number} << END", *(f"{x:g} {y:g}" for x, y in line.points), "END"]
            axes = " axes x1y2" if line.is_right else ""
            colour = COLOURS[number % len(COLOURS)]
            drawn.append(f"$line{number} using 1:2{axes} with {style} lc rgb '{colour}' title '{line.name}'")
        # A panel without a point keeps its place.
        text.append("plot " + ", ".join(drawn) if drawn else "set multiplot next")
    return "\n".join([*text, "unset multiplot", ""])


def draw(path, text):
    """Runs gnuplot on a script and writes what it draws."""
    done = subprocess.run(["gnuplot"], input=text, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    if done.returncode != 0 or "<svg" not in done.stdout:
        raise Failure(f"gnuplot failed: {done.stderr.strip()[-300:]}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(done.stdout)
