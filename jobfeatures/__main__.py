"""`python -m jobfeatures`, and the command as it is installed."""

import gc
import os
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command and end the process.

    A prolog waits for it: collecting garbage while importing and taking the
    interpreter apart at the end would be a sixth of its time.
    """
    gc.disable()
    try:
        from jobfeatures.cli import main  # after the line above

        status = main()
    except KeyboardInterrupt:  # while importing
        status = 130
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads any more
        status = status or 1
    os._exit(status)


if __name__ == "__main__":
    run()
