"""Settings for tests, by flat names: `web_own_socket` is ``web.own_socket``, `hook_timeout_secs` ``hook.timeout``."""

from jobfeatures.settings.resolve import compose, values_of
from jobfeatures_exporter.config import ExporterConfig


def configured(config=ExporterConfig, **settings):
    """Return a configuration, or any record with parts, whose other settings are the defaults."""
    return compose(config, _by_key(config, settings))


def changed(config, **settings):
    """Return a configuration with some settings changed, without the origins of values."""
    return compose(type(config), values_of(config) | _by_key(type(config), settings))


def settings_for(system, **settings):
    """Return what a batch system is given on a node with these settings."""
    return configured(**settings).of_system(system)


def _by_key(config, settings):
    keys = {key.replace(".", "_"): key for key in values_of(config())}
    return {keys.get(name) or keys[name.removesuffix("_secs")]: value for name, value in settings.items()}
