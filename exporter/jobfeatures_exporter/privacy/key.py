"""The secret key that names are hashed with."""

from __future__ import annotations

from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.system.privatefile import read_private
from jobfeatures_exporter.privacy.config import HASH, PrivacyConfig
from jobfeatures_exporter.privacy.hiding import Privacy

MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 4096


def make_privacy(config: PrivacyConfig) -> Privacy:
    """Return the configured `Privacy`. Raises ConfigurationError."""
    if config.privacy != HASH:
        return Privacy(config.privacy)
    if config.privacy_key_file is None:
        raise ConfigurationError(
            "privacy", "hash needs privacy_key_file, such as one made by: head -c 32 /dev/urandom | base64"
        )
    try:
        key = read_private(config.privacy_key_file, MAX_KEY_BYTES).strip()
    except (OSError, JobfeaturesError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError("privacy_key_file", f"{config.privacy_key_file}: {reason}") from error
    if len(key) < MIN_KEY_BYTES:
        raise ConfigurationError("privacy_key_file", f"needs {MIN_KEY_BYTES} bytes or more, not {len(key)}")
    return Privacy(HASH, key)
