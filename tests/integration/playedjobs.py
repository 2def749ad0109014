"""Jobs that a lab has played, read from the daemon's page and the feature directories, alike for each batch system."""

import re


def series_of(system: str, page: str, name: str, job_id: str | None = None, **labels: str) -> list[float]:
    """Return the values of a job's series."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    wanted += [f'batch_system="{system}",job_id="{job_id}"'] if job_id else []
    return [
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith(f"{name}{{") and all(each in line for each in wanted)
    ]


def info_of(system: str, page: str, job_id: str) -> dict[str, str]:
    """Return the labels of a job's one `batch_job_info`."""
    start = f'batch_job_info{{batch_system="{system}",job_id="{job_id}",'
    [line] = [each for each in page.splitlines() if each.startswith(start)]
    pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line)
    return {key: value.replace("\\n", "\n").replace('\\"', '"') for key, value in pairs}


def check_directories(name: str, found: dict, expected: dict, uid: int) -> None:
    """Assert that a job's directories hold these keys, for all to read, and that its status is its user's.

    `found` are mode, uid and text of each file and directory by its path below features.root.
    """
    top = f"jobfeatures/{name}"
    keys = {
        path.removeprefix(f"{top}/"): text
        for path, (_, _, text) in found.items()
        if path.startswith(f"{top}/")
    }
    assert keys == {key: f"{value}\n" for key, value in expected.items()}, name
    for path, (mode, owner, _) in found.items():
        if path.startswith("jobfeatures/"):
            assert (mode, owner) == ("40755" if path == top else "100644", 0)
    assert found[f"jobstatus/{name}"][1] == uid


def check_remaining(left_secs: float, end_secs: float, looked: tuple[float, float]) -> None:
    """Assert that so much remained until then at some time of a look, by clocks that tell whole seconds."""
    began, ended = looked
    assert end_secs - ended - 2 <= left_secs <= end_secs - began + 2


def check_suspension(cpu_secs: list[float]) -> None:
    """Assert that CPU time stood still between the first two readings, and went on to the third."""
    assert cpu_secs[1] - cpu_secs[0] < 0.5
    assert cpu_secs[2] > cpu_secs[1]
