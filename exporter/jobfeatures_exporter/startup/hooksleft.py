"""Finds, before a package is removed, the batch systems still configured to run hooks from its folder.

``python3 -m jobfeatures_exporter.startup.hooksleft FOLDER`` prints a line for each: its name, a tab, and the
reason it is listed. A batch system that is here but cannot be queried is listed too: its hooks are unknown.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from collections.abc import Iterator

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.hooks.actions import node_name
from jobfeatures.settings.resolve import load_config
from jobfeatures.system.privatefile import read_bounded
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.startup.hooksites import HOOK_SITES, MAX_BYTES, named_hooks, program_of


def systems_left(config: ExporterConfig, folder: str) -> Iterator[tuple[str, str]]:
    """Yield batch systems that call hooks below `folder`, or whose hooks are unknown, and the reason."""
    for system in HOOK_SITES:
        if system not in config.polling.sources and not SYSTEMS[system].is_here(config.of_system(system)):
            continue
        names: dict[str, None] = {}
        try:
            with contextlib.suppress(FileNotFoundError):  # nothing is configured there
                for each in named_hooks(system, config, node_name(config.shared.node.name, {})):
                    if not each.wanted and leads_to(each.command, folder):
                        names[each.name] = None
        except (SourceError, OSError) as error:
            yield system, f"its hooks are not known ({error})"
            continue
        if names:
            yield system, f"its configuration still names hooks of the package ({', '.join(names)})"


def leads_to(command: str, folder: str) -> bool:
    """Return whether a command names a file below a folder, runs one by a link, or a script that names one.

    Raises OSError if a script cannot be read.
    """
    if f"{folder}/" in command:
        return True
    for path in glob.glob(program_of(command)):  # Slurm's settings may be patterns
        if os.path.realpath(path).startswith(f"{os.path.realpath(folder)}/"):
            return True
        if f"{folder}/".encode() in read_bounded(os.path.realpath(path), MAX_BYTES)[0]:
            return True
    return False


def main(folder: str) -> int:
    """Print the batch systems that run a hook below `folder`; invalid settings of the daemon are ignored."""
    try:
        config = load_config(ExporterConfig)
    except ConfigurationError:
        config = ExporterConfig()
    for system, why in systems_left(config, folder):
        print(system, " ".join(why.split()), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
