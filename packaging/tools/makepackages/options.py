"""The options of ``packaging/build.sh``, of the standard library alone: ``--help`` installs nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from makepackages.release import MAINTAINER

CHECKOUT = Path(__file__).resolve().parents[3]
PROGRAMS = {"deb": "dpkg-deb", "rpm": "rpmbuild"}
KINDS = ("wheel", "bundle", *PROGRAMS)
VARIABLES = """environment:
  PYTHON                 Python of the packages, such as /usr/bin/python3.13 (default: /usr/bin/python3,
                         or the newest beside it)
  DEBFULLNAME, DEBEMAIL  the maintainer's name and address
  SOURCE_DATE_EPOCH      time of all files (default: the last commit)
  PIP_INDEX_URL, PIP_CONSTRAINT
                         where libraries come from, and which"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="packaging/build.sh",
        description="Build wheel, source archive, bundle of all wheels, .deb and .rpm.",
        epilog=VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=CHECKOUT / "dist", help="output folder (default: dist)")
    parser.add_argument(
        "--only", default=",".join(KINDS), metavar="KIND,...", help=f"kinds to build, of {', '.join(KINDS)}"
    )
    parser.add_argument("--revision", default="1", help="packages' revision after the version (default: 1)")
    parser.add_argument(
        "--extras", default="web,top", metavar="EXTRA,...", help="extras in .deb and .rpm (default: web,top)"
    )
    parser.add_argument(
        "--repository", action="store_true", help="add .deb and .rpm to a signed repository below --out"
    )
    parser.add_argument(
        "--key", default="", help="id or address of the secret key in gpg's keyring that signs it"
    )
    parser.add_argument(
        "--release",
        action="store_true",
        help=f"build for others: needs {' and '.join(MAINTAINER)}",
    )
    return parser


if __name__ == "__main__":
    make_parser().parse_args()
