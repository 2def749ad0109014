"""The layout of a package, and the libraries in its environment."""

from __future__ import annotations

from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

NAME = "jobfeatures-exporter"
PREFIX = f"/opt/{NAME}"
COMMANDS = ("jobfeatures", "jobfeatures-exporter")
HOOKS = ("common", "gridengine", "htcondor", "lsf", "oar", "pbs", "slurm", "torque")
# Where files of the project go; those that do not exist are left out.
COPIES = {
    "packaging/systemd": "/usr/lib/systemd/system",
    "packaging/systemd-variants": f"{PREFIX}/share/systemd",
    "packaging/etc/sysusers.conf": f"/usr/lib/sysusers.d/{NAME}.conf",
    "packaging/etc/tmpfiles.conf": f"/usr/lib/tmpfiles.d/{NAME}.conf",
    "packaging/scripts/stub.sh": f"{PREFIX}/share/stub.sh",
    "packaging/etc/web.yml": f"/etc/{NAME}/web.yml",
    "grafana/dashboards": f"{PREFIX}/share/grafana/dashboards",
    "grafana/provisioning": f"{PREFIX}/share/grafana/provisioning",
    "grafana/rules": f"{PREFIX}/share/grafana/rules",
    "grafana/prometheus.yml": f"{PREFIX}/share/grafana/prometheus.yml",
    "docs": f"/usr/share/doc/{NAME}/docs",
    "README.md": f"/usr/share/doc/{NAME}/README.md",
    **{f"packaging/{name}": f"{PREFIX}/{name}" for name in HOOKS},
}


def metadata_of(libraries: Path) -> list[tuple[str, str, Message]]:
    """Return name, version and metadata of each library of an environment, except ours."""
    found = []
    for file in sorted(libraries.glob("*.dist-info/METADATA")):
        metadata = HeaderParser().parsestr(file.read_text(encoding="utf-8"))
        if metadata["Name"] != NAME:
            found.append((metadata["Name"], metadata["Version"], metadata))
    return found


def bundled(libraries: Path) -> str:
    """Return the list of the environment's libraries, with the licences that they state."""
    lines = []
    for name, version, metadata in metadata_of(libraries):
        classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
        stated = metadata["License-Expression"] or ", ".join(each.split(" :: ")[-1] for each in classifiers)
        lines.append(f"  {name} {version}: {stated or metadata['License'] or 'see its files'}\n")
    return "".join(lines)
