"""``python -m gpudissect``: the same as the command ``gpudissect``."""

import sys

from gpudissect.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
