"""Say of each package of the extra `test` whether the tests miss it: `python tests/packaging/needed.py`.

In turn each is hidden from the tests that import it or name what needs it, which then have to fail.
One that nothing misses should leave the extra.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "jobfeatures-exporter"
# Tests of what the product itself imports; of the others the tests' own imports tell it.
BY_PRODUCT = {
    "bcrypt": "tests/exporter/web/test_tls.py tests/exporter/web/configfile/test_options.py tests/exporter/web",
    "google-re2": "tests/jobfeatures/formats/sss",
    "htcondor": "tests/jobfeatures/batch/htcondor/test_jobad.py",
    "textual": "tests/exporter/top",
    "tqdm": "tests/jobfeatures/system/test_progress.py",
    "matplotlib": "tests/jobfeatures/analysis/schedule/pictures/test_draw.py",
}
HIDE = """import sys
for name in {names!r}:
    sys.modules[name] = None
"""


def packages_of(extra: str, extras: dict[str, list[str]]) -> set[str]:
    """Return the packages of an extra, and of the extras that it names."""
    found = set()
    for requirement in extras[extra]:
        name = re.match(r"[\w.-]+", requirement)[0]
        if name != NAME:
            found.add(name)
            continue
        for other in re.search(r"\[(.*)\]", requirement)[1].split(","):
            found |= packages_of(other, extras)
    return found


def files_of(package: str, modules: list[str]) -> list[str]:
    """Return test files, or folders, that should miss the package."""
    if package in BY_PRODUCT:
        return BY_PRODUCT[package].split()
    pattern = re.compile(rf"^\s*(import|from) ({'|'.join(map(re.escape, modules))})\b", re.MULTILINE)
    elsewhere = {"integration", "benchmarks", "labs"}
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not elsewhere & set(path.parts)]
    users = [path for path in paths if pattern.search(path.read_text())]
    # Of a module that tests share, all tests beside it.
    return [str(each if each.name.startswith("test_") else each.parent) for each in users[:2]] or [
        "tests/test_structure.py"
    ]


def verdict_on(package: str, modules: list[str]) -> str:
    """Run what should miss the package without it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(HIDE.format(names=modules))
        every = "not integration and not gpu"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-n",
            "2",
            "--tb=no",
            "-m",
            every,
            *files_of(package, modules),
        ]
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0:
        return f"NOT MISSED: {lines[-1]}"
    named = [line for line in lines if re.match(r"FAILED|ERROR|\w*Error|ImportError", line)]
    return (named or lines[-1:])[0][:150]


def main() -> int:
    """Print a line on each package; 1 where one is not missed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = packages_distributions()
    missed = True
    for package in sorted(packages_of("test", extras), key=str.lower):
        same = package.lower().replace("_", "-")
        modules = [
            name for name, of in names.items() if same in {each.lower().replace("_", "-") for each in of}
        ]
        modules = [each for each in modules if each.isidentifier()]
        said = verdict_on(package, modules)
        missed = missed and not said.startswith("NOT")
        print(f"{package} ({', '.join(sorted(modules))}): {said}", flush=True)
    return 0 if missed else 1


if __name__ == "__main__":
    sys.exit(main())
