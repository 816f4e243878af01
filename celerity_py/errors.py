# SPDX-License-Identifier: MIT
"""The exceptions of celerity_py; also reachable as `celerity_py.UsageError` and so on."""

from celerity_py.scheduler.errors import *  # noqa: F403 - all of them, and nothing else
