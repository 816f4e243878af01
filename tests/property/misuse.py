# SPDX-License-Identifier: MIT
"""Mistakes that no submit shows: in bodies of kernels, in calls, in the environment.

Each is put into a random program; `illegal_run` has the code.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.property import (
    illegal_replays,
    mistakes_of_ranks,  # noqa: F401 - its mistakes are among MISTAKES then
)
from tests.property.draws import Draws, choice
from tests.property.mistake import MISTAKES, Illegal, Tampering, large_kernels
from tests.property.mistakes import shape_of
from tests.property.programs import Access, Kernel, Program
from tests.verification.contexts import native_region
from tests.verification.elements import full_box

_Fits = Callable[[Program, Kernel, Access], bool]

WRONG_TYPE = ("ArgumentTypeError",)
USAGE = ("UsageError",)
OUTSIDE = ("OutOfBoundsAccess",)


def _touches(mode: str) -> _Fits:
    def fits(program: Program, kernel: Kernel, access: Access) -> bool:
        is_touched = bool(access.mapper.region(kernel.box, kernel.box, shape_of(program, access)))
        return mode in {access.mode, "any"} and is_touched

    return fits


def _reads_where_more_is(program: Program, kernel: Kernel, access: Access) -> bool:
    """A buffer without dimensions has nothing beyond its element."""
    return bool(shape_of(program, access)) and _touches("read")(program, kernel, access)


def _is_alone(kernel: Kernel, access: Access) -> bool:
    return sum(other.buffer == access.buffer for other in kernel.accesses) == 1


def _overwrites(program: Program, kernel: Kernel, access: Access) -> bool:
    """No check looks at elements that the kernel reads as well: the old contents are there."""
    return _is_alone(kernel, access) and _touches("write")(program, kernel, access)


def _writes_itself(program: Program, kernel: Kernel, access: Access) -> bool:
    is_plain = access.mode == "write" and access.mapper.kind == "one_to_one"
    return is_plain and kernel.box == full_box(shape_of(program, access))


def _writes_many_boxes(program: Program, kernel: Kernel, access: Access) -> bool:
    """Whichever chunk, as long as there are four of them: boxes with gaps between."""
    if access.mode == "read" or kernel.oversubscribe > 1 or kernel.border:
        return False
    boxes = access.mapper.region(kernel.box, kernel.box, shape_of(program, access))
    return _is_alone(kernel, access) and len(native_region(boxes).boxes) >= 12 if boxes else False


def _in_body(
    kind: str, expected: tuple[str, ...], how: str, fits: _Fits, *, needs_check: bool = False, one_device: bool = False
) -> None:
    """The body of a kernel makes a mistake."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        places = [n for n, kernel in large_kernels(program) if any(fits(program, kernel, a) for a in kernel.accesses)]
        if not places:
            return None
        tampering = Tampering(choice(draws, places), how)
        return Illegal(
            kind, expected, program, tampering=tampering, needs_check=needs_check or one_device, one_device=one_device
        )

    MISTAKES[kind] = change


_in_body("a kernel reads beyond its region", OUTSIDE, "read beyond", _reads_where_more_is)
for _kind, _expected, _how, _mode in (
    ("a kernel writes through a read access", ("ReadOnlyAccess", "TaskFailed"), "write read", "read"),
    ("a kernel raises", ("TaskFailed",), "raise", "write"),
    ("a kernel submits", ("NestedUse",), "submit", "write"),
    ("a kernel keeps an array", ("KeptArray",), "keep", "write"),
    ("a kernel keeps a view", ("KeptArray",), "keep view", "any"),
    ("a kernel uses a captured buffer", WRONG_TYPE, "captured buffer", "any"),
    ("a view is used as an array", WRONG_TYPE, "view as array", "any"),
    ("a kernel assigns a value of another kind", USAGE, "assign a fraction", "write"),
):
    _in_body(_kind, _expected, _how, _touches(_mode))
_in_body("elements are left unwritten", ("IncompleteWrite",), "leave some", _overwrites, needs_check=True)
_in_body("local indices", OUTSIDE, "local indices", _writes_itself)
_in_body("one device: local indices", OUTSIDE, "local indices", _writes_itself, one_device=True)
_in_body("a kernel writes between its boxes", OUTSIDE, "between boxes", _writes_many_boxes, needs_check=True)


def _call(kind: str, expected: tuple[str, ...], how: str) -> None:
    """All ranks make a wrong call somewhere in the program."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        return Illegal(kind, expected, program, tampering=Tampering(draws.integer(0, len(program.steps) - 1), how))

    MISTAKES[kind] = change


for _kind, _expected in (
    ("a bare buffer as an argument", WRONG_TYPE),
    ("a future as an argument", WRONG_TYPE),
    ("a list of accesses", WRONG_TYPE),
    ("an access without a call", WRONG_TYPE),
    ("a mapper without a call", WRONG_TYPE),
    ("a buffer as an array", WRONG_TYPE),
    ("an index space of 2**64 items", USAGE),
    ("an index space of four dimensions", ("DimensionMismatch",)),
    ("a slice at an index that is none", OUTSIDE),
    ("a fence beyond the buffer", OUTSIDE),
    ("coordinates beyond 64 bits", USAGE),
    ("a hint of 2**62 parts", USAGE),
    ("a constraint of other dimensions", USAGE),
    ("a pure mapper of a list", WRONG_TYPE),
    ("a mapper submits", ("NestedUse",)),
    ("two reductions into one buffer", ("OverlappingAccess",)),
    ("a reducer as a number", WRONG_TYPE),
    ("a fraction combined into integers", USAGE),
    ("an array argument is written", ("ReadOnlyAccess",)),
    ("a host task raises", ("TaskFailed",)),
    ("a host task keeps an array", ("KeptArray",)),
    ("from_function returns another shape", ("TaskFailed", *USAGE)),
    ("a setting after the start", ("ConfigurationError",)),
    ("a forked child waits", ("ForkedProcess",)),
):
    _call(_kind, _expected, _kind)


def _changing(kind: str, places: tuple[str, ...], *, needs_check: bool = False) -> None:
    """A value changes in one of these places, at the wrong time."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        how = f"{kind}/{choice(draws, places)}"
        tampering = Tampering(draws.integer(0, len(program.steps) - 1), how)
        return Illegal(kind, USAGE, program, tampering=tampering, needs_check=needs_check)

    MISTAKES[kind] = change


for _kind in (illegal_replays.VALUES, illegal_replays.BUFFERS, illegal_replays.HALF_TURN, illegal_replays.CHANGING):
    _changing(_kind, illegal_replays.PLACES)
_changing(illegal_replays.PARAMETERS, illegal_replays.USES)
_changing(illegal_replays.SUBMITTED, illegal_replays.PLACES, needs_check=True)
_changing(illegal_replays.SUBMITTED_PLAINLY, ("cell", "global", "attribute"))


def _environment(kind: str, name: str, value: str) -> None:
    def change(draws: Draws, program: Program) -> Illegal | None:
        return Illegal(kind, ("ConfigurationError",), program, environment=((name, value),))

    MISTAKES[kind] = change


_environment("an unknown setting", "CELERITY_LOOKAHAED", "none")
_environment("a setting without a meaning", "CELERITY_HORIZON_STEP", "many")
_environment("statistics without a place", "CELERITY_STATS", "/proc/none/statistics.json")


def _settings_differ(draws: Draws, program: Program) -> Illegal | None:
    kind = "settings differ"
    steps = tuple(program.steps)
    return Illegal(kind, ("ConfigurationError",), program, steps, odd_tampering=Tampering(-1, "other settings"))


MISTAKES["settings differ"] = _settings_differ


#: Of this module and of `mistakes`.
ALL_MISTAKES = MISTAKES
