# SPDX-License-Identifier: MIT
"""`python -m celerity_py` is the command line `celerity-py`."""

from __future__ import annotations

from celerity_py.tools.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
