# SPDX-License-Identifier: MIT
"""The digests of plain arguments that ranks compare at each submit: native code makes those of numbers and texts."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.comparison.value_digests import digest_of
from celerity_py.submit.delegate import SubmitDelegate
from celerity_py.submit.plain_values import PLAIN_TYPES
from tests.support.repeated_submits import runtime

NUMBERS = sorted((kind for kind in PLAIN_TYPES if issubclass(kind, np.generic)), key=lambda kind: kind.__name__)
LONG_DOUBLES = (np.longdouble, np.clongdouble)


@dataclasses.dataclass(frozen=True)
class Frozen:
    dt: float
    weights: Any


@dataclasses.dataclass
class Open:
    dt: float


#: Left to Python: long doubles, halves of surrogate pairs, whatever has parts.
SLOW: list[Any] = [np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps, np.clongdouble(1j)]
SLOW += ["\ud800", "\ud801", None, b"a", (1, 2), (1, 3), np.zeros(2), np.zeros(3)]
SLOW += [Frozen(1.0, 2), Frozen(1.0, 3), Frozen(2.0, 2), Frozen(1.0, np.zeros(2)), Frozen(1.0, np.ones(2))]


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Metres(float): ...


class Tag(str):
    __slots__ = ()


OWN: list[Any] = [Colour.RED, Colour.BLUE, Metres(1), Metres(2), Tag("1"), Tag("2")]
FAST: list[Any] = [0, 1, -1, -2, 2**61 - 1, 2**63 - 1, -(2**63), 2**63, 2**64, 2**125, 10**5000, 10**5000 + 1]
FAST += [True, False, 0.0, -0.0, 1.0, 0.1, 1e-320, float("nan"), float("inf"), 0j, 1j, 1 + 0j, complex("nan")]
FAST += ["", "0", "1", "\u00e9", "a" * 8, "a" * 9, "a" * 8 + "\0", np.int64(-1), np.uint64(2**64 - 1)]
FAST += [kind(number) for kind in NUMBERS if kind not in LONG_DOUBLES for number in (0, 1)]
FAST += [*(kind("nan") for kind in (np.float16, np.float32, np.float64)), np.float32(0.1), np.float64(np.float32(0.1))]


@pytest.fixture(autouse=True)
def running(queue: celerity.Queue) -> celerity.Queue:
    return queue


def digest(*values: Any) -> int:
    return int(runtime().submitter.digest_values(list(values)))


@pytest.fixture
def python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(value: object) -> int:
        raise AssertionError(value)

    monkeypatch.setattr(SubmitDelegate, "digest_of", staticmethod(refuse))


def test_any_two_values_differ() -> None:
    values = FAST + OWN + SLOW
    found = [digest(value) for value in values]
    same = [(a, b) for (a, x), (b, y) in itertools.combinations(zip(values, found, strict=True), 2) if x == y]
    assert not same


@pytest.mark.usefixtures("python_is_not_asked")
def test_native_code_knows_numbers_and_texts() -> None:
    for value in FAST + OWN:
        assert digest(value) == digest(value) != 0
    with pytest.raises(AssertionError):
        digest(SLOW[0])


@pytest.mark.usefixtures("python_is_not_asked")
@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind not in LONG_DOUBLES], ids=lambda kind: kind.__name__)
def test_every_bit_of_a_number_counts(kind: type[np.generic]) -> None:
    whole = np.ones(1, kind)
    seen = {digest(whole[0])}
    bits = [0] if kind is np.bool_ else range(8 * whole.itemsize)
    for bit in bits:
        changed = whole.copy()
        changed.view(np.uint8)[bit // 8] ^= 1 << bit % 8
        is_nan = bool(changed[0] != changed[0])
        seen.add(-1 - bit if is_nan else digest(changed[0]))  # all NaNs have one digest
    assert len(seen) == 1 + len(bits)


@pytest.mark.usefixtures("python_is_not_asked")
@pytest.mark.parametrize(("kind", "bits"), [(np.float16, np.uint16), (np.float32, np.uint32), (np.float64, np.uint64)])
def test_a_nan_has_one_digest(kind: type[np.generic], bits: type[np.generic]) -> None:
    quiet = np.array([np.nan], kind)
    others = quiet.view(bits) | np.array([1], bits), quiet.view(bits) ^ ~(np.array([-1], "i8").astype(bits) >> bits(1))
    for other in others:
        assert other.tobytes() != quiet.tobytes()
        assert digest(other.view(kind)[0]) == digest(quiet[0])


SMALL_ARRAYS: list[Any] = [np.zeros(shape, kind) for shape in ((), (0,), (3,), (1, 3), (3, 1)) for kind in "?bHilefdFD"]


@pytest.mark.usefixtures("python_is_not_asked")
def test_native_code_knows_small_arrays() -> None:
    assert len({digest(array) for array in SMALL_ARRAYS}) == len(SMALL_ARRAYS)
    array = np.arange(60.0).reshape(3, 4, 5)
    seen = {digest(array)}
    for same in (array.copy(), np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2], array[::-1].copy()[::-1]):
        assert digest(same) in seen
    for position in range(array.size):
        changed = array.copy()
        changed.flat[position] += 0.5
        seen.add(digest(changed))
    assert len(seen) == 1 + array.size
    assert digest(np.zeros(2, np.longlong)) == digest(np.zeros(2, np.int64))
    read_only = np.ones(2)
    read_only.flags.writeable = False
    assert digest(read_only) == digest(np.ones(2))


@pytest.mark.usefixtures("python_is_not_asked")
@pytest.mark.parametrize("kind", ["g", "G", ">f8", "S2", "U2", "M8[s]", "i4,f8", "O", "f8"])
def test_other_arrays_are_left_to_python(kind: str) -> None:
    with pytest.raises(AssertionError):
        digest(np.zeros(4096 // 8 + 1, kind))


def test_objects_that_may_change_are_shared_and_compared_with_check_only() -> None:
    assert digest(Open(1.0)) == digest(Open(2.0))
    assert digest_of(Open(1.0)) != digest_of(Open(2.0))
    assert digest_of(Frozen(1.0, [1])) != digest_of(Frozen(1.0, [2]))


def test_the_position_counts() -> None:
    u = celerity.Buffer(4, name="u")
    port = u.read(celerity.access.all()).port
    assert digest(port) == digest() == 0
    orders = [(1, 2), (2, 1), (port, 1, 2), (1, port, 2), (1, 2, port), (1, 1), (1,), (1, 2, 2)]
    assert len({digest(*values) for values in orders}) == len(orders) - 1  # an access behind all values tells nothing


def test_another_process_finds_the_same() -> None:
    copies = pickle.loads(pickle.dumps(FAST))  # a long long comes back as another type of the same size
    values = [copied for value, copied in zip(FAST, copies, strict=True) if type(value) is type(copied)]
    code = "import pickle, sys, celerity_py as celerity\nqueue = celerity.Queue()\n"
    code += "for value in pickle.load(sys.stdin.buffer):\n    print(queue._runtime.submitter.digest_values([value]))\n"
    result = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(values), capture_output=True, check=True, timeout=60
    )
    assert [int(line) for line in result.stdout.split()] == [digest(value) for value in values]
