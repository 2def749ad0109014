"""The live table of jobs on a terminal. It needs the package textual (extra: top)."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from jobfeatures.records.cells import fit, width_of
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.top.pages import Pages
from jobfeatures_exporter.top.polling import PagePoll, PagePoller
from jobfeatures_exporter.top.table import (
    BY_KEY,
    COLUMNS,
    GAP,
    Line,
    Style,
    TopColumn,
    choose_columns,
    filter_jobs,
    jobs_of,
    make_cells,
    make_head,
    make_process_cells,
    sort_jobs,
    style_of,
)

STYLES = {Style.PLAIN: "", Style.HEAD: "bold", Style.WARNING: "yellow"}
MOST_PROCESSES = 200  # shown per job
HELP = """\
 arrows, PgUp, PgDn   move; wheel and clicks work too
 Enter, Space         show or hide the processes of a job
 /                    filter by job, user, name or state
 Esc                  show all jobs again
 < >                  sort by the column to the left, right
 r                    reverse the order
 ?                    show these keys
 q                    quit

 Sort by a column; a click on its head does the same:
"""


def show_live(pages: Pages, *, interval_secs: float, order: str) -> None:
    """Show the live table until q is pressed, then restore the terminal. Ctrl-C raises KeyboardInterrupt.

    `order` is the key of the column to sort by first.
    """
    app = Top(pages, interval_secs=interval_secs, order=order)
    app.run()
    if app.ended_by == signal.SIGINT:
        raise KeyboardInterrupt
    if app.ended_by is not None:  # end by the signal after restoring the terminal
        signal.signal(app.ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), app.ended_by)


class Keys(ModalScreen[None]):
    """The window that lists the keys and what they do."""

    CSS = """
    Keys { align: center middle; }
    Keys VerticalScroll {
        width: 80; max-width: 100%; height: auto; max-height: 100%;
        border: round ansi_default; background: ansi_default;
    }
    """

    def compose(self) -> ComposeResult:
        """Build the window's content."""
        columns = "".join(f" {each.key}  {each.head:7} {each.meaning}\n" for each in COLUMNS)
        with VerticalScroll(can_focus=False):
            yield Static(Text(HELP + columns.rstrip("\n")))

    def on_key(self) -> None:
        """Close the window on any key."""
        self.dismiss()


class JobsTable(DataTable[Text]):
    """The table widget with the jobs; the keys Home and End go to its first and last line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]


class Top(App[None]):
    """The textual application that shows the jobs of one node as a live table."""

    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #head { height: auto; max-height: 40%; }
    #jobs { height: 1fr; background: ansi_default; scrollbar-size-vertical: 1; }
    #jobs > .datatable--header { text-style: bold; background: ansi_default; color: ansi_default; }
    #jobs > .datatable--cursor { text-style: reverse; background: ansi_default; color: ansi_default; }
    #jobs > .datatable--hover { background: ansi_default; }
    #filter { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    #filter.shown { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q,f10", "quit", "Quit", key_display="q"),
        Binding("slash", "filter", "Filter", key_display="/", priority=True),  # before keys typed after it
        Binding("enter,space", "expand", "Processes", key_display="Enter"),
        Binding("w", "sort('w')", "Waste now"),
        Binding("c", "sort('c')", "CPUs"),
        Binding("m", "sort('m')", "Memory"),
        Binding("r", "reverse", "Reverse"),
        Binding("less_than_sign,comma", "step(-1)", show=False),
        Binding("greater_than_sign,full_stop", "step(1)", show=False),
        Binding("h,f1", "keys", show=False),
        Binding("f4", "filter", show=False),
        Binding("escape", "show_all", show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
        *(Binding(key, f"sort('{key}')", show=False) for key in BY_KEY if key not in "wcm"),
    ]

    def __init__(self, pages: Pages, *, interval_secs: float, order: str) -> None:
        super().__init__(ansi_color=True)
        self._top = Static(id="head")
        self._table = JobsTable(id="jobs", cursor_type="row", cell_padding=0)
        self._box = Input(id="filter", placeholder="filter by job, user, name or state", compact=True)
        self._source = pages.name
        self._order, self._is_reversed = order, False
        self._words = ""
        self._expanded: set[JobKey] = set()
        self._poll = PagePoll()
        self._jobs: list[tuple[JobKey, int]] = []  # job and process (0: the job itself) of each line
        self._shape: list[tuple[TopColumn, int]] = []
        self._drawn: list[list[Text]] = []
        self._poller = PagePoller(
            pages,
            interval_secs,
            show=lambda poll: self.call_later(self._show, poll),
            give_up=lambda error: self.call_later(self._fail, error),
        )
        self.ended_by: signal.Signals | None = None

    def compose(self) -> ComposeResult:
        """Build the screen."""
        yield from (self._top, self._table, self._box)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Start polling."""
        self.theme = "ansi-dark"
        self._table.focus()
        if not self.is_headless:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self._end_by, number)
        self._poller.start()

    def on_unmount(self) -> None:
        """Stop polling."""
        self._poller.stop()

    def _end_by(self, number: signal.Signals) -> None:
        self.ended_by = number
        self.exit()

    # --- events -----------------------------------------------------------------------

    def _show(self, poll: PagePoll) -> None:
        self._poll = poll
        self._draw()

    def _fail(self, error: Exception) -> None:
        raise error

    def on_resize(self) -> None:
        """Choose the columns that fit the new size."""
        self.call_after_refresh(self._draw)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the jobs that match what has been typed so far."""
        self._words = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter, which the head of the screen shows, and return to the table."""
        self._table.focus()

    def on_input_blurred(self) -> None:
        """Hide the filter box once it loses the focus."""
        self._box.remove_class("shown")

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column that was clicked on."""
        self.action_sort(self._shape[event.column_index][0].key)

    def on_data_table_row_selected(self) -> None:
        """Expand or collapse the selected job."""
        self.action_expand()

    # --- keys -------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        """Exit as after Ctrl-C (SIGINT)."""
        self._end_by(signal.SIGINT)

    def action_keys(self) -> None:
        """Show the list of keys."""
        self.push_screen(Keys())

    def action_sort(self, key: str) -> None:
        """Sort by the column with this key; if it is the current one, reverse the order."""
        self._is_reversed = key == self._order and not self._is_reversed
        self._order = key
        self._draw()

    def action_reverse(self) -> None:
        """Reverse the order of the jobs."""
        self.action_sort(self._order)

    def action_step(self, step: int) -> None:
        """Sort by the column `step` positions to the right of the current one."""
        keys = [column.key for column, _ in self._shape] or list(BY_KEY)
        at = keys.index(self._order) if self._order in keys else 0
        self.action_sort(keys[max(0, min(len(keys) - 1, at + step))])

    def action_filter(self) -> None:
        """Open the filter box; if it is open already, type a slash into it."""
        if isinstance(self.screen, Keys):
            self.screen.dismiss()
            return
        if self.focused is self._box:
            self._box.post_message(Key("slash", "/"))
            return
        self._box.add_class("shown")
        self.set_focus(self._box)  # immediately: on a slow line, further keys are already queued

    def action_show_all(self) -> None:
        """Clear the filter."""
        self._box.value = ""
        self._table.focus()

    def action_expand(self) -> None:
        """Show or hide the processes of the job under the cursor."""
        at = self._table.cursor_row
        if not 0 <= at < len(self._jobs):
            return
        self._expanded ^= {self._jobs[at][0]}
        self._poller.expanded = frozenset(self._expanded)
        self._poller.hurry()
        self._draw()

    # --- the screen -------------------------------------------------------------------

    def _draw(self) -> None:
        poll = self._poll
        jobs = jobs_of(poll.node)
        shown = sort_jobs(filter_jobs(jobs, self._words), self._order, is_reversed=self._is_reversed)
        self._draw_head(len(jobs), len(shown))
        shape = choose_columns(
            shown, self.size.width - 1, has_processes=bool(self._expanded)
        )  # minus the scroll bar
        lines: list[list[Text]] = []
        places: list[tuple[JobKey, int]] = []
        for job in shown:
            key = job.key
            lines.append(_texts(make_cells(shape, job), STYLES[style_of(job)]))
            places.append((key, 0))
            found = poll.processes.get(key, "reading its processes …") if key in self._expanded else []
            if isinstance(found, str):
                lines.append(_note(shape, f" └ {found}"))
                places.append((key, -1))
                continue
            for each in found[:MOST_PROCESSES]:
                lines.append(_texts(make_process_cells(shape, each), "dim"))
                places.append((key, each.process.pid))
            if len(found) > MOST_PROCESSES:
                lines.append(_note(shape, f" └ … and {len(found) - MOST_PROCESSES:,} more"))
                places.append((key, -1))
        self._put(shape, lines, places)

    def _draw_head(self, total: int, shown: int) -> None:
        lines = make_head(self._poll.node, self._source)
        if width_of(lines[0].text) > self.size.width:
            lines = make_head(self._poll.node)
        if self._poll.fault:
            lines.insert(0, Line(fit(self._poll.fault, 500), Style.WARNING))
        text = Text()
        for line in lines:
            text.append(f"{line.text}\n", STYLES[line.style])
        if self._words:
            text.append(f"filter: {fit(self._words, 40)} ({shown} of {total} jobs)\n", "bold")
        elif not total:
            text.append(f"{self._poll.node.without_jobs}\n")
        text.rstrip()
        self._top.update(text)

    def _put(
        self, shape: list[tuple[TopColumn, int]], lines: list[list[Text]], jobs: list[tuple[JobKey, int]]
    ) -> None:
        """Show these lines: update cells that differ, or all if columns or the number of lines changed."""
        table = self._table
        cursor, top = table.cursor_row, table.scroll_y
        chosen = self._jobs[cursor] if 0 < cursor < len(self._jobs) else None
        heads = [self._head(column, width) for column, width in shape]
        with self.batch_update():
            if shape == self._shape and len(lines) == len(self._drawn):
                self._update(table, lines)
            else:
                table.clear(columns=True)
                for at, ((_, width), head) in enumerate(zip(shape, heads, strict=True), 1):
                    table.add_column(head, width=width + (GAP if at < len(shape) else 0))
                table.add_rows(lines)
                self.call_after_refresh(table.scroll_to, y=top, animate=False)
            for column, head in zip(table.ordered_columns, heads, strict=True):
                column.label = head
            self._shape, self._drawn, self._jobs = shape, lines, jobs
            target = jobs.index(chosen) if chosen in jobs else cursor
            if lines and target != table.cursor_row:
                table.move_cursor(row=min(target, len(lines) - 1), animate=False, scroll=False)
        table.refresh()

    def _update(self, table: DataTable[Text], lines: list[list[Text]]) -> None:
        for row, (line, before) in enumerate(zip(lines, self._drawn, strict=True)):
            for column, (text, old) in enumerate(zip(line, before, strict=True)):
                if text != old or text.style != old.style:
                    table.update_cell_at(Coordinate(row, column), text)

    def _head(self, column: TopColumn, width: int) -> Text:
        text = column.head
        if column.key == self._order:
            text += "▲" if column.largest_first == self._is_reversed else "▼"
        return Text(
            text.rjust(width) if column.is_number else text, "reverse" if column.key == self._order else ""
        )


def _texts(cells: list[str], style: str) -> list[Text]:
    return [Text(each, style, no_wrap=True) for each in cells]


def _note(shape: list[tuple[TopColumn, int]], text: str) -> list[Text]:
    made = []
    for _, width in shape:
        part, text = text[: width + GAP], text[width + GAP :]
        made.append(Text(part, "dim", no_wrap=True))
    return made
