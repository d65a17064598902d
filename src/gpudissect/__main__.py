"""``python -m gpudissect``: the same as the command ``gpudissect``."""

import os
import sys

if __name__ == "__main__":
    try:
        if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # import no modules from the working folder
            del sys.path[0]
    except FileNotFoundError:  # the working folder was removed
        pass
    try:
        from gpudissect.cli.app import main
    except KeyboardInterrupt:  # Ctrl-C while Python is still importing
        sys.exit(130)
    sys.exit(main())
