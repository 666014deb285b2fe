"""Whether a service answers well: ``healthy.py URL``, for health checks in images that have no curl."""

from __future__ import annotations

import sys
import urllib.request


def main() -> int:
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=5):
            return 0
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
