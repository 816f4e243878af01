# SPDX-License-Identifier: MIT
"""The command line `celerity-py`: a module per command, all listed in `main.py`."""
