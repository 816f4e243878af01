# SPDX-License-Identifier: MIT
"""Checks at the start that the ranks have the same settings and the same version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from celerity_py import _native
from celerity_py.configuration import Configuration, compared_settings
from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py.executor.network.communicator import Communicator

_VERSION = "version of celerity_py"


def agree_on_settings(settings: Configuration, communicator: Communicator) -> None:
    """Compare the settings and versions that planning depends on. Collective.

    Raises:
        ConfigurationError: On all ranks, if two have different values of a setting, or different versions.
    """
    if communicator.size == 1:
        return
    own = {_VERSION: _native.version(), **compared_settings(settings)}
    given: list[dict[str, Any]] = [json.loads(text) for text in communicator.exchange(json.dumps(own).encode())]
    for name in dict.fromkeys(name for values in given for name in values):
        values = [rank_values.get(name) for rank_values in given]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), 0)
        if other:
            what = name if name == _VERSION else f"setting {name}"
            raise ConfigurationError(
                f"The {what} is {values[0]!r} on rank 0 and {values[other]!r} "
                f"on rank {other}, but must be the same on all ranks. A launcher may pass the environment of its own "
                f"host only: give it to all ranks (Open MPI: -x NAME, MPICH: -genv NAME VALUE), or call "
                f"celerity_py.configure() in the program."
            )
