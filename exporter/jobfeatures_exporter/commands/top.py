"""`jobfeatures-exporter top`: shows the jobs of this node in a terminal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.settings.access import Access, access_of, add_access_flags
from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures.settings.resolve import DEFAULT_FILE
from jobfeatures.settings.usage import add_option, complain

if TYPE_CHECKING:
    from jobfeatures_exporter.config import ExporterConfig
    from jobfeatures_exporter.top.pages import Pages

ORDERS = tuple("jucimnwgtdka")  # keys of columns
ONCE_SECS = 1.0  # between the two samples of --once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `top` to its parser."""
    add_option(
        parser,
        "--url",
        "URL",
        "a daemon, such as http://node:9819 or unix:/PATH (default: by the settings, else the node is "
        "read directly)",
    )
    add_access_flags(parser, "--url")
    parser.add_argument("--local", action="store_true", help="read the node directly, without a daemon")
    add_option(
        parser, "--config.file", "PATH", f"TOML file with settings (default: {DEFAULT_FILE} if it exists)"
    )
    parser.add_argument("--once", action="store_true", help="print the table once, as without a terminal")
    add_option(parser, "--interval", "DURATION", "time between samples", default="2s")
    add_option(
        parser,
        "--sort",
        "KEY",
        "key of a column, such as w, waste now; ? in the table shows all",
        choices=ORDERS,
        default="c",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the jobs of this node, live until q is pressed, or print them once; return the exit status."""
    interval_secs = parse_duration_flag("--interval", arguments.interval)
    is_live = not arguments.once and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    pages = _open(arguments)
    try:
        if not (is_live and _show_live(pages, interval_secs, arguments.sort)):
            _print_once(pages, arguments.sort)
    finally:
        pages.close()
    return 0


def _show_live(pages: Pages, interval_secs: float, order: str) -> bool:
    """Show the live table; if the extra `top` is not installed, say so and return False."""
    try:
        from jobfeatures_exporter.top.app import show_live
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("jobfeatures"):
            raise
        need = "printed once: a live table needs textual, pip install 'jobfeatures-exporter[top]'"
        complain(need, "jobfeatures-exporter")
        return False
    show_live(pages, interval_secs=interval_secs, order=order)
    return True


def _print_once(pages: Pages, order: str) -> None:
    from jobfeatures_exporter.top.table import make_lines
    from jobfeatures_exporter.view.node import view_page

    before = pages.read()
    time.sleep(ONCE_SECS)
    now = pages.read()
    columns = os.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = make_lines(view_page(now, before), order=order, columns=columns, source=pages.name)
    print("\n".join(line.text for line in lines))


def own_socket(config: ExporterConfig) -> str:
    """Return the URL of the socket that shows users their own jobs; empty for root, or if there is none."""
    path = config.web.own_socket
    return f"unix:{path}" if path is not None and os.geteuid() != 0 and os.path.exists(path) else ""


def _open(arguments: argparse.Namespace) -> Pages:
    from jobfeatures.system.logs import configure_logging
    from jobfeatures_exporter.commands.common import config_of
    from jobfeatures_exporter.top.pages import (
        WITHOUT_TRACES,
        DaemonPages,
        OwnPages,
        address_of,
        is_connection_refused,
        metrics_address,
    )

    if arguments.url is not None and arguments.local:
        raise ConfigurationError(
            "--local", "reads this node without a daemon, so it cannot be combined with --url"
        )
    config = config_of(arguments)
    if not arguments.local:
        url = arguments.url or own_socket(config) or address_of(config.web_listen_address)
        is_socket = url.startswith("unix:/")  # the kernel identifies the caller: no passwords
        access = Access(url) if is_socket else access_of(arguments, "--url", url)
        daemon = DaemonPages(replace(access, url=metrics_address(access.url)), config)
        try:
            daemon.read()
        except SourceError as error:
            if arguments.url is not None or not is_connection_refused(error):
                raise
        else:
            return daemon
    configure_logging("error", config.log.format)  # log lines would garble the table
    return OwnPages(config_of(arguments, WITHOUT_TRACES))
