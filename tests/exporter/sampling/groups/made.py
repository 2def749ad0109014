"""What tests of control groups share: how the directories of jobs are listed."""

from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies, list_job_directories
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory


def listed(root, unreadable, **more) -> list[JobDirectory]:
    found, complete = list_job_directories(find_hierarchies(str(root)), unreadable, **more)
    assert complete
    return found
