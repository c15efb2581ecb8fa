#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own, as somebody who looks and presses keys.

usage: terminal.py SECONDS TEXT KEYS [TEXT KEYS]... -- COMMAND...

Waits until TEXT is shown, presses KEYS, goes on with the next pair, and then waits for the end. What was shown before
keys were pressed does not count for the next TEXT. Ends with the code of the command, or with an error where a text did
not come in time, or where the terminal is not as it was: its settings, its screen, its cursor.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

ROWS, COLUMNS = 24, 100
OTHER_SCREEN, OWN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
NO_CURSOR, CURSOR = b"\x1b[?25l", b"\x1b[?25h"
BYTES_MAX = 1 << 16


class Terminal:
    """A command, and the terminal that it runs on."""

    def __init__(self, command, seconds):
        self.end = time.monotonic() + seconds
        self.ours, self.its = pty.openpty()
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(self.its)
        self.shown = b""
        self.process = subprocess.Popen(
            command, stdin=self.its, stdout=self.its, stderr=self.its, start_new_session=True
        )

    def look(self):
        """Takes in what was shown. False: nothing was, for a tenth of a second."""
        if not select.select([self.ours], [], [], 0.1)[0]:
            return False
        self.shown += os.read(self.ours, BYTES_MAX)
        return True

    def wait_for(self, text, begin):
        """Waits until a text is shown behind a place."""
        while text not in self.shown[begin:]:
            if not self.look() and (time.monotonic() > self.end or self.process.poll() is not None):
                shown = self.shown[begin:].decode(errors="replace")
                sys.exit(f"'{text.decode()}' was not shown:\n{shown}")

    def wait_for_end(self):
        """Waits until the command ends."""
        while self.process.poll() is None:
            self.look()
            if time.monotonic() > self.end:
                self.process.kill()
                sys.exit("the command did not end")
        while self.look():
            pass
        return self.process.returncode

    def is_as_it_was(self):
        """Whether the terminal is as it was before."""
        is_back = [
            self.shown.rfind(other) <= self.shown.rfind(own)
            for other, own in ((OTHER_SCREEN, OWN_SCREEN), (NO_CURSOR, CURSOR))
        ]
        return all(is_back) and termios.tcgetattr(self.its) == self.before


def main():
    """Runs it."""
    at = sys.argv.index("--")
    seconds, *pairs = sys.argv[1:at]
    terminal = Terminal(sys.argv[at + 1 :], float(seconds))
    begin = 0
    for text, keys in zip(pairs[::2], pairs[1::2], strict=True):
        terminal.wait_for(text.encode(), begin)
        begin = len(terminal.shown)
        os.write(terminal.ours, keys.encode())
    code = terminal.wait_for_end()
    if not terminal.is_as_it_was():
        sys.exit("the terminal is not as it was")
    sys.exit(code)


if __name__ == "__main__":
    main()
