"""The table again and again on a terminal, with keys. Needs rich (extra: top)."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.top.pages import Pages
from jobfeatures_exporter.top.table import ORDERS, Line, Style, make_lines
from jobfeatures_exporter.view.node import view_page
from jobfeatures_exporter.view.numbers import Numbers

QUIT = {"q", "Q"}
TICK_SECS = 0.2  # after which a terminal of another size is noticed
STYLES = {Style.PLAIN: "", Style.HEAD: "bold", Style.WARNING: "yellow"}


def show_live(pages: Pages, *, interval_secs: float, order: str) -> None:
    """Show the jobs until q is pressed. Raises KeyboardInterrupt; the terminal is as before in each case."""
    console = Console(highlight=False, emoji=False, markup=False)
    before: Numbers | None = None
    now, fault = pages.look(), ""
    due = time.monotonic() + min(1.0, interval_secs)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        size = None
        while True:
            if time.monotonic() >= due:
                due = time.monotonic() + interval_secs
                try:
                    before, now, fault = now, pages.look(), ""
                except JobfeaturesError as error:  # the daemon may be starting anew
                    fault = str(error)
                size = None
            if size != console.size:
                size = console.size
                live.update(
                    _screen(before, now, order, pages.name, fault, size.width, size.height), refresh=True
                )
            for key in keys.pressed(min(TICK_SECS, max(0.0, due - time.monotonic()))):
                if key in QUIT:
                    return
                if key in ORDERS:
                    order, size = key, None


def _screen(
    before: Numbers | None, now: Numbers, order: str, source: str, fault: str, columns: int, lines: int
) -> Group:
    room = lines - 1 if fault else lines
    made = make_lines(
        view_page(now, before),
        order=order,
        columns=columns,
        lines=room,
        source=source,
        with_keys=True,
    )
    if fault:
        made.insert(0, Line(fault, Style.WARNING))
    return Group(*(Text(each.text, style=STYLES[each.style], no_wrap=True, overflow="crop") for each in made))


class _Keys:
    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self, secs: float) -> str:
        """Return what was pressed within some seconds."""
        if self._descriptor is None:
            time.sleep(secs)
            return ""
        if not select.select([self._descriptor], [], [], secs)[0]:
            return ""
        data = os.read(self._descriptor, 64)
        if not data:  # the terminal is gone
            return "q"
        return data.decode("ascii", "ignore")


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Give what reads single keys; without a terminal to read from, none come."""
    if not sys.stdin.isatty():
        yield _Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
