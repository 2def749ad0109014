"""Compiles what runs in the kernel, where clang is here. The rest stands in pyproject.toml."""

import shutil
import subprocess
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build

SOURCE = "exporter/jobfeatures_exporter/sampling/bpf/sums.bpf.c"
PLACE = "jobfeatures_exporter/sampling/bpf/sums.bpf.o"
# v3 is what Linux 5.1 understands; the types of the records that are read go into the object by -g.
FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf", "-mcpu=v3")


class BuildBpf(Command):
    """Compiles the object that sums in the kernel."""

    description = "compile what runs in the kernel"
    user_options = [("build-lib=", "b", "folder of what is built")]  # noqa: RUF012  # setuptools wants a list
    editable_mode = False

    def initialize_options(self):
        """Say which options there are."""
        self.build_lib = None

    def finalize_options(self):
        """Take what was not said from the others."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        """Compile; a failure costs the object only."""
        clang = shutil.which("clang")
        if clang is None:
            self.announce("no clang: the exporter will read processes from /proc only", level=4)
            return
        made = Path("exporter" if self.editable_mode else self.build_lib) / PLACE
        made.parent.mkdir(parents=True, exist_ok=True)
        prefix = f"-fdebug-prefix-map={Path.cwd()}=."  # the same object wherever it is built
        try:
            subprocess.run([clang, *FLAGS, prefix, "-c", SOURCE, "-o", str(made)], check=True)
            if strip := shutil.which("llvm-strip"):
                subprocess.run([strip, "-g", str(made)], check=True)
        except subprocess.CalledProcessError as error:
            made.unlink(missing_ok=True)
            self.announce(f"{error}: the exporter will read processes from /proc only", level=4)

    def get_source_files(self):
        """Return what a source archive has to hold."""
        return [SOURCE]

    def get_outputs(self):
        """Return what is always made: nothing."""
        return []

    def get_output_mapping(self):
        """Return what an editable installation takes from elsewhere: nothing."""
        return {}


class NoteRevision(BuildBpf):
    """Notes the commit that is built, which ``--version`` says; packaging/build.sh has done so before."""

    description = "note the commit that is built"

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


build.sub_commands += [("build_bpf", None), ("note_revision", None)]
setup(cmdclass={"build_bpf": BuildBpf, "note_revision": NoteRevision})
