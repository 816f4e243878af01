# SPDX-License-Identifier: MIT
"""What a port needs of the MPI that it is made for. `tests/mpi/test_communicator.py` has ports that work."""

from __future__ import annotations

import pytest

from celerity_py import _native


def make_port(module_path: str, **more: int) -> _native.MessagePort:
    given = {"handle_bytes": 4, "status_bytes": 24, "num_ranks": 1, "largest_tag": 100} | more
    return _native.make_mpi_port(_native.MpiSettings(module_path=module_path, **given))


def test_functions_that_the_library_lacks_are_named() -> None:
    with pytest.raises(
        RuntimeError, match=r"the library of .*_native.* has no function MPI_Isend, MPI_Irecv, .*MPI_Error_string"
    ):
        make_port(_native.__file__)


def test_only_a_module_that_is_loaded_is_asked() -> None:
    with pytest.raises(RuntimeError, match=r"/nowhere/MPI\.so is not loaded"):
        make_port("/nowhere/MPI.so")


def test_handles_of_another_size_and_too_few_tags_are_refused() -> None:
    with pytest.raises(ValueError, match="handles of MPI have 4 or 8 bytes, not 16"):
        make_port(_native.__file__, handle_bytes=16)
    with pytest.raises(ValueError, match="four tags"):
        make_port(_native.__file__, largest_tag=2)
