"""`jobfeatures convert`: converts a log of jobs to another format."""

from __future__ import annotations

import argparse
import re
from typing import Any

from jobfeatures.commands.logarguments import add_kind, add_meaning, parse_meaning, parse_zone
from jobfeatures.errors import ConfigurationError
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.logfiles import COMPRESSIONS, as_text, reading, replacing, writing
from jobfeatures.joblogs.loggedjob import MAX_SHOWN, LastLine, Notes
from jobfeatures.logkinds import KINDS, WRITABLE, kind_of_name, read_log, write_log
from jobfeatures.openlog import open_log
from jobfeatures.settings.usage import complain
from jobfeatures.system.progress import shown_progress

DONE, NOT_ALL = 0, 1
_COMMENT = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63}): [^\r\n]{1,1000}\Z")
_OWN_LABELS = {
    *("version", "maxjobs", "maxrecords", "preemption", "unixstarttime", "timezone", "timezonestring"),
    *("starttime", "endtime", "maxqueues", "queue", "maxpartitions", "partition"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures convert` to its parser."""
    parser.description = (
        "Convert a log of jobs to another format. Fields lost in conversion are listed, with counts. "
        "Exit status: 0 all jobs were converted, 1 some were not, 2 a log could not be read or written."
    )
    parser.add_argument("input", metavar="IN", help="a log, may be compressed; -: standard input")
    parser.add_argument("output", metavar="OUT", help="likewise; - is standard output")
    add_kind(parser)
    parser.add_argument(
        "--to",
        dest="to_kind",
        choices=list(WRITABLE),
        metavar="KIND",
        help=f"(default: by OUT's ending) one of {', '.join(WRITABLE)}",
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first error, and repair nothing")
    parser.add_argument("--list", action="store_true", help="name every field that is lost")
    parser.add_argument(
        "--runs",
        choices=("last", "all"),
        default="last",
        help="which runs of a requeued job become jobs (default: last); a run begins with a higher restart "
        "count, a new submission, a start after an end, or when an ended job waits or runs again",
    )

    parser.add_argument(
        "--renumber",
        action="store_true",
        help="from SWF to SWF: renumber jobs, users, groups, programs, queues, partitions",
    )
    parser.add_argument(
        "--rebase", action="store_true", help="from SWF to SWF: sort by submission, times since the first"
    )
    add_meaning(parser)
    parser.add_argument(
        "--header",
        action="append",
        type=_comment,
        default=[],
        metavar="'LABEL: VALUE'",
        help="add to the header of an SWF log, such as 'MaxProcs: 1024'; may be repeated",
    )


def _comment(text: str) -> str:
    """Return a header comment. Raises ArgumentTypeError if malformed, or if the conversion sets its label."""
    match = _COMMENT.match(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"must be LABEL: VALUE, not {text!r}")
    if match[1].lower() in _OWN_LABELS:
        how = ": use --zone" if match[1].lower().startswith("timezone") else ""
        raise argparse.ArgumentTypeError(f"{match[1]} is set by the conversion itself{how}")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Convert a log to another format; return the exit status."""
    zone = parse_zone(arguments.zone)
    notes = Notes()
    to_kind = arguments.to_kind or kind_of_name(arguments.output, COMPRESSIONS)
    if arguments.header and not KINDS[to_kind].has_header:
        raise ConfigurationError("--header", f"a log of kind {to_kind} has no header")
    options: dict[str, Any] = {name: True for name in ("renumber", "rebase") if getattr(arguments, name)}
    if options and to_kind != "swf":
        raise ConfigurationError(f"--{next(iter(options))}", "is for SWF logs only")
    if zone is not None and to_kind == "swf":
        options["zone"] = zone
    may_keep = KINDS[to_kind].keeps_text
    with reading(arguments.input, exactly=may_keep) as stream:
        from_kind, lines = open_log(stream, arguments.from_kind, arguments.input)
        keeps_text = may_keep and from_kind == to_kind
        if may_keep and not keeps_text:
            lines = as_text(lines)
        found = read_log(
            shown_progress(lines, stream, arguments.input),
            from_kind,
            source=shown_name(arguments.input),
            strict=arguments.strict,
            zone=zone,
            notes=notes,
            keep_text=keeps_text,
            meaning=parse_meaning(arguments),
            folds_steps=KINDS[to_kind].jobs_only,
        )
        with DiskSorter() as sort, replacing(arguments.output) as aside, writing(aside) as out:
            written = write_log(
                notes.accepted_with_passages(found),
                to_kind,
                notes,
                all_runs=arguments.runs == "all",
                header=arguments.header,
                sort=sort,
                **options,
            )
            for line in written:
                text = line if keeps_text else as_unicode(line)
                out.write(text if isinstance(line, LastLine) else f"{text}\n")
    _report(notes, shown_name(arguments.input), in_full=arguments.list)
    return DONE if notes.is_whole else NOT_ALL


def shown_name(name: str) -> str:
    """Return a file's name as messages show it: ``-`` as "standard input"."""
    return "standard input" if name == "-" else name


def as_unicode(line: str) -> str:
    """Return a line with lone surrogates replaced, since a file in UTF-8 cannot hold them.

    Strings from JSON may contain some.
    """
    return line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")


def _report(notes: Notes, source: str, *, in_full: bool) -> None:
    """Report what was rejected, and what the format has no place for."""
    for rejected in notes.shown:
        complain(rejected)
    if notes.rejected > MAX_SHOWN:
        complain(f"{source}: {notes.rejected - MAX_SHOWN} more records rejected")
    for line in notes.lines(in_full=in_full):
        complain(f"{source}: {line}")
    complain(f"{source}: {notes.read} records, {notes.rejected} rejected")
