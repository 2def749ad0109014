"""Detects which jobs run a program that waits for their end: their limits are queried each minute.

`jobfeatures run` holds a shared lock on $JOBFEATURES, for which read access to the directory suffices, also
in a container. The lock ends with the process; nothing is written, and nothing is left behind.
"""

from __future__ import annotations

import fcntl
import os

from jobfeatures.records.model import JobKey

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WaitedFor:
    """The ids of one batch system's jobs that run a program which waits for their end; supports only ``in``.

    They are recognised by locks on the jobs' directories below `features.root`.
    """

    def __init__(self, batch_system: str, root: str) -> None:
        self._batch_system = batch_system
        self._root = root

    def __contains__(self, job_id: object) -> bool:
        """Return whether a shared lock is held on the job's directory; False if there is none."""
        name = JobKey(self._batch_system, str(job_id)).directory_name
        try:
            folder = os.open(f"{self._root}/jobfeatures/{name}", _DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            os.close(folder)
