"""`python -m jobfeatures`."""

import sys

from jobfeatures.cli import main

sys.exit(main())
