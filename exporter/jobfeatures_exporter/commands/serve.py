"""`jobfeatures-exporter serve`."""

from __future__ import annotations

import argparse

from jobfeatures.logs import configure_logging
from jobfeatures_exporter.commands.common import add_settings, config_of

add_arguments = add_settings


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal ends it; SIGHUP reads the settings again."""
    config = config_of(arguments)
    configure_logging(config.log_level, config.log_format)
    from jobfeatures_exporter.sampling.bpf.choice import choose_reader
    from jobfeatures_exporter.serve import serve
    from jobfeatures_exporter.service.keptsettings import find_settings_file

    file = find_settings_file(vars(arguments).get("config.file"))
    serve(config, reread=lambda: config_of(arguments), settings_file=file, choose_reader=choose_reader)
    return 0
