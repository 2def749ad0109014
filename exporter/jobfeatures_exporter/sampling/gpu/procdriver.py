"""/proc/driver/nvidia/gpus/ADDRESS/information: text to record. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.errors import ParseError
from jobfeatures.quantities import parse_count


@dataclass(frozen=True, slots=True)
class CardFile:
    """What the kernel's driver reports about one card; `minor` is the N of /dev/nvidiaN."""

    uuid: str
    minor: int | None


def parse_card_file(text: str) -> CardFile:
    """Return UUID and minor number. Raises ParseError.

    Sample, shortened; the UUID holds question marks before the card was first used::

        Model:           NVIDIA A100-SXM4-40GB
        GPU UUID:        GPU-6bc1b3ea-2d5c-bd93-8e7b-6f1b1c0a9d1c
        Bus Location:    0000:3b:00.0
        Device Minor:    0
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    uuid = values.get("GPU UUID", "")
    if not uuid or "?" in uuid:
        raise ParseError("no UUID", source="information", field="GPU UUID", text=uuid)
    minor = values.get("Device Minor")
    return CardFile(uuid, None if minor is None else parse_count(minor, field="Device Minor"))
