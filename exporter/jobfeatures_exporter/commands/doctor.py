"""`jobfeatures-exporter doctor`: checks what the daemon depends on, and suggests remedies."""

from __future__ import annotations

import argparse

from jobfeatures.system.exitstatus import DONE, FAILED
from jobfeatures_exporter.commands.common import add_settings, config_of

add_arguments = add_settings


def run(arguments: argparse.Namespace) -> int:
    """Run the checks and print each finding as it is made. Exit status 1 if something is wrong."""
    from jobfeatures.records.cells import clean
    from jobfeatures_exporter.startup.doctor import examine
    from jobfeatures_exporter.startup.findings import Mark

    status = DONE
    for each in examine(config_of(arguments)):
        print(f"{each.mark.value:<5}  {clean(each.what)}: {clean(each.words)}", flush=True)
        if each.mark is not Mark.GOOD and each.remedy:
            print(f"       → {clean(each.remedy)}")
        if each.mark is Mark.WRONG:
            status = FAILED
    return status
