"""``python -m gpudissect``: the same as the command ``gpudissect``."""

import sys

if __name__ == "__main__":
    try:
        from gpudissect.cli.app import main
    except KeyboardInterrupt:  # Ctrl-C while Python is still importing
        sys.exit(130)
    sys.exit(main())
