"""The settings of how personal data is shown."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, choice, option

SHOWN, HASH, WITHHOLD = "none", "hash", "withhold"


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """Settings: how names of users, accounts, jobs and commands are shown."""

    names: str = option(
        choice(SHOWN, HASH, WITHHOLD),
        SHOWN,
        "names of users, accounts, jobs and commands: shown, hashed, or withheld",
        key="privacy",
        is_common=True,
    )
    key_file: str | None = option(
        PATH, None, "secret of hash, 16 bytes or more, the same on all nodes", key="privacy_key_file"
    )
