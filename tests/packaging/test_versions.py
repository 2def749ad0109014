"""The versions of Python that the project names are the same everywhere."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = [
    each.rpartition(" ")[2] for each in STATED["classifiers"] if re.search(r":: Python :: 3\.\d+$", each)
]


def test_readme_the_page_on_installing_and_the_build_name_the_versions_of_pyproject():
    first, last = VERSIONS[0], VERSIONS[-1]
    assert STATED["requires-python"] == f">={first}"
    assert f"with Python {first} to {last}," in (ROOT / "README.md").read_text()
    assert (
        f"Linux with Python {', '.join(VERSIONS[:-1])} or {last}." in (ROOT / "docs/install.md").read_text()
    )
    tried = ",".join(each.partition(".")[2] for each in reversed(VERSIONS))
    build = (ROOT / "packaging/build.sh").read_text()
    assert f"/usr/bin/python3.{{{tried}}}" in build
    assert f"sys.version_info < ({first.replace('.', ', ')})" in build
