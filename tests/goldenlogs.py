"""What the commands make of logs, as figures: the golden figures of all logs at hand, computed and written.

``python -m tests.goldenlogs fixtures`` writes those of the project's own fixtures anew,
``python -m tests.goldenlogs public FOLDER`` those of the public logs in FOLDER, which are not
the project's to hand on: only counts and digests of results are kept. A digest is of values,
not of their text, where there is a choice: a new field or key leaves the others' as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobfeatures import __version__, cli
from jobfeatures.logkinds import KindError, recognise_kind

FIXTURES = Path(__file__).parent / "fixtures"
GOLDEN = FIXTURES / "golden"
GOLDEN_OF = {"fixtures": GOLDEN / "logs-fixtures.json", "public": GOLDEN / "logs-public.json"}
ENDINGS = {"", ".txt", ".json", ".xml", ".swf", ".acct", ".gz", ".csv"}  # what may be a log
IN_ONE = re.compile(r"slurmrestd/")  # folders of many small documents: one entry for each folder
MAX_BYTES = 2**21
WRITTEN = ("swf", "sss", "sonar")
SHOWN = ("jobs", "users", "violated", "sum_eet", "total_tardiness", "total_weighted_tardiness", "mean_wait")
DIGESTED = {  # of a schedule's document, as it was when the figures were first taken
    *("arrival", "bounded_slowdown", "by", "filtered", "log", "mean_bounded_slowdown", "mean_response"),
    *("mean_slowdown", "mode", "over_time", "over_users", "queue_length", "resources"),
    *("response", "share", "shares", "skipped", "slowdown", "utilisation", "veet"),
    *("violated_percent", "wait", "warnings", "weighted_tardiness"),
}
VERSION = re.compile(rf'(?P<before>"exporter_version", "value": "|by jobfeatures ){re.escape(__version__)}\b')
ZONE = ("--zone", "UTC")


def digest(value: object) -> str:
    """Return a short digest of a text, our version apart, or of a value as JSON with floats to nine digits."""
    text = value if isinstance(value, str) else json.dumps(_plain(value), sort_keys=True)
    text = VERSION.sub(r"\g<before>0.1.0", text)  # the one in which the figures were first taken
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def run(*arguments: str) -> tuple[int, str, list[str]]:
    """Run a command in this process; return its status, its output and the lines of its messages."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            status = cli.main(list(arguments))
        except SystemExit as error:
            status = int(error.code or 0)
    return status, out.getvalue(), told.getvalue().splitlines()


def find_logs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Return the names of the logs below a folder: each by itself, or with what stands in its folder."""
    together: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_log = path.suffix in ENDINGS and path.is_file() and path.stat().st_size < MAX_BYTES
        if not is_log or name.startswith("golden/") or kind_of(path) is None:
            continue
        group = str(Path(name).parent) if IN_ONE.search(name) else name
        together.setdefault(group, []).append(name)
    yield from together.items()


def kind_of(path: Path) -> str | None:
    """Return the kind of a log, None of what is none."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(errors="replace") as stream:
            return recognise_kind(stream.read(4096))
    except (KindError, OSError, UnicodeDecodeError):
        return "swf" if ".swf" in path.name else None


def freeze(what: str, folder: Path) -> dict[str, Any]:
    """Return the figures of all logs below a folder."""
    return {name: freeze_log(what, folder, name, files) for name, files in find_logs(folder)}


def freeze_log(what: str, folder: Path, name: str, files: list[str]) -> dict[str, Any]:
    """Return the figures of one log; its folder becomes the working directory meanwhile."""
    with contextlib.chdir(folder), tempfile.TemporaryDirectory() as scratch:
        return _freeze_log(name, files, Path(scratch), is_public=what == "public")


def _freeze_log(name: str, files: list[str], scratch: Path, *, is_public: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {"records": freeze_records(files, scratch)}
    if len(files) > 1:
        return figures
    for kind in WRITTEN:
        figures[kind] = freeze_conversion(name, kind, scratch)
    figures["schedule"] = freeze_schedule(name, scratch, is_public=is_public)
    if kind_of(Path(name)) == "swf":
        figures["check"] = freeze_text("check", "--as", "swf", name)
        for policy in ("fifo", "fairshare", "easy", "fairshare+easy"):
            figures[policy] = freeze_text("simulate", name, "--policy", policy, *ZONE)
    return figures


def freeze_records(files: list[str], scratch: Path) -> dict[str, Any]:
    """Return how often each field of the records is known, and a digest of its values."""
    seen: dict[str, list[Any]] = {}
    statuses, rejected, read = [], 0, 0
    for name in files:
        status, _, messages = run("convert", name, str(scratch / "log.jsonl"), *ZONE)
        statuses.append(status)
        rejected += sum(int(match[1]) for line in messages if (match := re.search(r"(\d+) rejected$", line)))
        if status == 2:
            continue
        for line in (scratch / "log.jsonl").read_text().splitlines():
            read += 1
            for key, value in json.loads(line).items():
                seen.setdefault(key, []).append([read, value])
    fields = {key: f"{len(values)} {digest(values)}" for key, values in sorted(seen.items())}
    return {"status": sorted(set(statuses)), "read": read, "rejected": rejected, "fields": fields}


def freeze_conversion(name: str, kind: str, scratch: Path) -> dict[str, Any]:
    """Return what a conversion tells, and a digest of what it wrote."""
    out = scratch / f"log.{kind}"
    status, _, messages = run("convert", name, str(out), "--to", kind, *ZONE)
    told = [line.removeprefix(f"jobfeatures: {name}: ") for line in messages]
    if status == 2:
        return {"status": status, "told": told}
    told = [line for line in told if line.startswith(("lost", "not taken", "merged", "repaired"))]
    text = out.read_text()
    return {"status": status, "told": told, "lines": text.count("\n"), "digest": digest(text)}


def freeze_schedule(name: str, scratch: Path, *, is_public: bool) -> dict[str, Any]:
    """Return the figures of a schedule in each mode; of public logs, also of its simulations and its report."""
    figures: dict[str, Any] = {}
    for mode in ("literal", "exact", "fluid"):
        status, out, messages = run("schedule", name, "--format", "json", "--mode", mode, *ZONE)
        if not out:
            return {"status": status, "told": messages}
        figures[mode] = freeze_documents(out)
    if not is_public:
        return figures
    _, out, messages = run("schedule", name, "--format", "json", "--simulate", "all", *ZONE)
    figures["simulated"] = freeze_documents(out) if out else messages
    _, out, messages = run("schedule", name, "--one-log", "--format", "json", *ZONE)
    figures["one log"] = freeze_documents(out) if out else messages
    report = scratch / "report.html"
    figures["text"] = freeze_text("schedule", name, "--report", str(report), *ZONE)
    text = re.sub(r"data:image/[^\"']*|<svg.*?</svg>", "", report.read_text(), flags=re.DOTALL)
    figures["report"] = digest(text)  # its text and tables; its pictures are the drawing library's
    return figures


def freeze_documents(text: str) -> list[dict[str, Any]]:
    """Return the figures of one document, or of several that stand side by side."""
    found = json.loads(text)
    return [freeze_document(each) for each in found.get("logs", [found])]


def freeze_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document's main figures as they are, and a digest of the others."""
    figures = {key: _plain(document[key]) for key in SHOWN if key in document}
    others = {key: value for key, value in document.items() if key in DIGESTED}
    return {**figures, "others": f"{len(others)} {digest(others)}"}


def freeze_text(*arguments: str) -> dict[str, Any]:
    """Return what a command says, as digests."""
    status, out, messages = run(*arguments)
    return {"status": status, "lines": out.count("\n"), "digest": digest(out), "told": messages}


def text_of(figures: dict[str, Any]) -> str:
    """Return golden figures as they stand in their file: a line for each part of each log."""
    logs = []
    for name, parts in sorted(figures.items()):
        lines = ",\n".join(f"  {json.dumps(part)}: {_line(value)}" for part, value in parts.items())
        logs.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(logs) + "\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def main() -> None:
    """Write the golden figures of the fixtures, or of a folder of public logs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("what", choices=GOLDEN_OF)
    parser.add_argument("folder", nargs="?", default=os.environ.get("JOBFEATURES_DATA"))
    arguments = parser.parse_args()
    folder = FIXTURES if arguments.what == "fixtures" else arguments.folder
    if folder is None:
        sys.exit("which FOLDER? JOBFEATURES_DATA names none either")
    GOLDEN_OF[arguments.what].write_text(text_of(freeze(arguments.what, Path(folder))))


if __name__ == "__main__":
    main()
