"""What stand-ins for HTCondor's commands print."""

from pathlib import Path

FIXTURES = Path(__file__).parents[3] / "fixtures" / "htcondor"


def show(name):
    """Return the line of a stand-in that prints a fixture."""
    return f"sys.stdout.write(open({str(FIXTURES / name)!r}).read())"
