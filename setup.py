"""Notes the commit that is built. The rest stands in pyproject.toml."""

import subprocess
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build


class NoteRevision(Command):
    """Notes the commit that is built, which ``--version`` says; packaging/build.sh has done so before."""

    description = "note the commit that is built"
    user_options = [("build-lib=", "b", "folder of what is built")]  # noqa: RUF012  # setuptools wants a list
    editable_mode = False

    def initialize_options(self):
        """Say which options there are."""
        self.build_lib = None

    def finalize_options(self):
        """Take what was not said from the others."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        """Write it beside the code that is built; without a checkout or git nothing is written."""
        made = Path(self.build_lib) / "jobfeatures/revision.txt"
        if self.editable_mode or not Path(".git").exists():
            return
        command = ["git", "rev-parse", "--verify", "HEAD"]
        try:
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(found, encoding="ascii")

    def get_source_files(self):
        """Return what a source archive has to hold: nothing."""
        return []

    def get_outputs(self):
        """Return what is always made: nothing."""
        return []

    def get_output_mapping(self):
        """Return what an editable installation takes from elsewhere: nothing."""
        return {}


build.sub_commands += [("note_revision", None)]
setup(cmdclass={"note_revision": NoteRevision})
