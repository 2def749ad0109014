"""Runs the command `jobfeatures`, as `python -m jobfeatures` and as the installed program."""

import contextlib
import gc
import os
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command and end the process.

    Garbage collection during imports and the interpreter's teardown at exit are skipped, since a prolog waits
    for this process: they would take a sixth of its time.
    """
    gc.disable()
    try:
        from jobfeatures.cli import main  # import only after gc.disable()
        from jobfeatures.settings.usage import complain
        from jobfeatures.system.output import end_output

        status = end_output(main(), complain)
    except KeyboardInterrupt:  # while importing
        status = 130
    with contextlib.suppress(AttributeError, OSError):  # it is closed
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
