"""Names of a card's optional counts (`GpuCount`) and of its flags."""

from __future__ import annotations

from jobfeatures_exporter.snapshot import GpuCount

PROFILED: GpuCount = ("profiled",)  # seconds over which the next two were counted
BUSY = "busy"  # + unit of the GPU: seconds
LINK = "link"  # + kind of link, direction: bytes
ECC, LIFETIME_ECC = "ecc", "lifetime_ecc"  # + kind: errors since the driver was loaded, and ever
REMAPPED = "remapped"  # + kind: rows
XID = "xid"  # + code: events; a code that has not occurred is missing
XIDS: GpuCount = ("xids",)  # events of all codes
CLOCK_REASON = "clock_reason"  # + reason: seconds

REMAP_PENDING, REMAP_FAILED, XIDS_WATCHED = "remap_pending", "remap_failed", "xids_watched"
