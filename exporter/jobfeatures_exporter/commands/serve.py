"""`jobfeatures-exporter serve`: runs the daemon."""

from __future__ import annotations

import argparse

from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.commands.common import add_settings, config_of
from jobfeatures_exporter.scrape.collectors import NODE

add_arguments = add_settings


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it, and return the exit status; SIGHUP reloads the settings."""
    config = config_of(arguments)
    configure_logging(config.log.level, config.log.format)
    from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, begin_choice
    from jobfeatures_exporter.web.sockets import find_kept

    choose = (
        begin_choice(config.reader, config.path, find_kept(), counts_work=bool(config.work.events))
        if config.role == NODE
        else lambda: PROCFS_ALONE
    )
    from jobfeatures_exporter.node.keptsettings import find_settings_file
    from jobfeatures_exporter.startup.serve import serve  # meanwhile

    file = find_settings_file(vars(arguments).get("config.file"))
    serve(config, reread=lambda: config_of(arguments), settings_file=file, choose_reader=choose)
    return 0
