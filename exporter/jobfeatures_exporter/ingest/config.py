"""The settings for receiving documents in Sonar's format."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import ADDRESS, COUNT, PATH, TEXT, option


@dataclass(frozen=True, kw_only=True)
class IngestSettings:
    """Settings: where documents of other agents come from, and how many are kept."""

    listen: str | None = option(
        ADDRESS, None, "listener that accepts documents; beyond loopback only with sonar.users_file"
    )
    users_file: str | None = option(
        PATH, None, "who may send: lines USER:PASSWORD or USER[CLUSTER,...]:PASSWORD"
    )
    directory: str | None = option(PATH, None, "folder with other agents' documents, YEAR/MONTH/DAY/*.json")
    minutes_from: str | None = option(TEXT, None, "producer that sends time limits in minutes")
    max_nodes: int = option(COUNT, 1000, "foreign nodes kept; beyond, the one silent for longest is dropped")

    @property
    def awaits_documents(self) -> bool:
        """Return whether documents of other agents are accepted at all."""
        return self.listen is not None or self.directory is not None
