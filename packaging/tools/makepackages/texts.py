"""Write the texts that are generated from the code into a folder: configuration, man pages, completions.

``python -m makepackages.texts FOLDER DATE``, with the code of the packages on the path.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path

import jobfeatures.cli
import jobfeatures_exporter.cli
from jobfeatures import __version__
from jobfeatures.settings.resolve import DEFAULT_FILE, FILE_VARIABLE
from jobfeatures_exporter.config import ExporterConfig
from makepackages import configfile, man
from makepackages.completions import write_completion
from makepackages.grammar import Command, read_program

ETC = "/etc/jobfeatures-exporter"
COMPLETIONS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/vendor-completions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
NODE_HEAD = """Settings of jobfeatures-exporter, and of the jobfeatures command, which hooks run.
Every setting is listed here with its default; remove the # to change one, or write it into a file \
conf.d/*.toml beside this one: upgrades ask about a changed config.toml. Settings from an older version's \
file stay valid or are refused by name: jobfeatures-exporter check-config."""
CONTROLLER_HEAD = """Settings of jobfeatures-controller.service, one per cluster: role "controller".
Every setting is listed here with its default; remove the # to change one. Hooks and the jobfeatures \
command read config.toml in the same folder."""


@functools.cache
def programs() -> tuple[Command, Command]:
    """Return the grammars of both commands."""
    return (
        read_program(jobfeatures.cli.build_parser, jobfeatures.cli.COMMANDS),
        read_program(jobfeatures_exporter.cli.build_parser, jobfeatures_exporter.cli.COMMANDS),
    )


def facts(date: str, module_doc: str) -> man.Facts:
    """Return what all man pages of a program contain."""
    [status] = [part for part in module_doc.split("\n\n") if part.startswith("Exit status")]
    return man.Facts(
        version=__version__,
        date=date,
        exit_status=status.removeprefix("Exit status:").replace("`", "").strip(),
        files={DEFAULT_FILE: "settings, in TOML; the package's file lists them all"},
        variables={
            FILE_VARIABLE: "another file with settings",
            "JOBFEATURES_KEY": "a setting: its key in capitals, with underscores for dots. Flags override the"
            " environment, the environment overrides the file.",
        },
    )


def write_texts(date: str) -> Mapping[str, str]:
    """Return paths below the root and texts."""
    first, second = programs()
    ours, exporters = jobfeatures.cli, jobfeatures_exporter.cli
    found = {
        f"{ETC}/config.toml": configfile.write_config(ExporterConfig, NODE_HEAD),
        f"{ETC}/controller.toml": configfile.write_config(ExporterConfig, CONTROLLER_HEAD),
    }
    for program, other, cli in ((first, second, ours), (second, first, exporters)):
        pages = man.write_pages(program, facts(date, cli.__doc__ or ""), (other.name,))
        found |= {f"/usr/share/man/man1/{name}": text for name, text in pages.items()}
        for shell, path in COMPLETIONS.items():
            script = write_completion(cli.build_parser, cli.COMMANDS, shell)
            found[f"/usr/share/{path.format(program.name)}"] = script
    return found


def main(folder: str, date: str) -> None:
    """Write them all."""
    for path, text in write_texts(date).items():
        file = Path(folder + path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
