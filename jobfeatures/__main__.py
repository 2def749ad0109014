"""`python -m jobfeatures`, and the command as it is installed."""

import gc
import os
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command and end the process.

    A prolog waits for it: garbage collection during imports and the interpreter's
    teardown at exit would take a sixth of its time.
    """
    gc.disable()
    try:
        from jobfeatures.cli import main  # import only after gc.disable()

        status = main()
    except KeyboardInterrupt:  # while importing
        status = 130
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader has closed its end
        status = status or 1
    os._exit(status)


if __name__ == "__main__":
    run()
