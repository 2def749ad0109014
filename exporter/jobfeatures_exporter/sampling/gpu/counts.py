"""Names of what a card counts on request (`GpuCount`), and of its flags."""

from __future__ import annotations

from jobfeatures_exporter.snapshot import GpuCount

PROFILED: GpuCount = ("profiled",)  # seconds, over which the next two were counted
BUSY = "busy"  # and the unit: seconds
LINK = "link"  # and which, and the direction: bytes
ECC, LIFETIME_ECC = "ecc", "lifetime_ecc"  # and the kind: since the driver was loaded, ever
REMAPPED = "remapped"  # and the kind
XID = "xid"  # and the code; what has not occurred is missing
XIDS: GpuCount = ("xids",)  # of all codes
CLOCK_REASON = "clock_reason"  # and which: seconds

REMAP_PENDING, REMAP_FAILED, XIDS_WATCHED = "remap_pending", "remap_failed", "xids_watched"
