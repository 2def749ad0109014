"""Accounting files of PBS and Torque as a log format; see `jobfeatures.batch.pbsfamily.accounting`."""

from __future__ import annotations

from jobfeatures.batch.pbsfamily.accounting import read_records, recognise
from jobfeatures.batch.pbsfamily.accountingwrite import write_records

__all__ = ["read_records", "recognise", "write_records"]
