# SPDX-License-Identifier: MIT
"""Fused kernels for submits: which traces serve a call, and the native launch that all chunks of this rank share.

A plan holds for arguments of the same kinds, for chunks that access the same boxes, and for the values that the trace
has asked for. Other plain numbers are scalars, which each submit packs.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

import numpy as np

from celerity_py import _native
from celerity_py._native import PortRecord
from celerity_py.calls.places import Place
from celerity_py.calls.reached_values import Reached, Watch, keep, reach
from celerity_py.fusion.calls import AccessArgument, is_parameter
from celerity_py.fusion.mistakes import NotTakenError
from celerity_py.fusion.scalars import SCALAR_BYTES, Packer, Parameter, num_places
from celerity_py.fusion.structures import Structures
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.scheduler.errors import CelerityWarning, UsageError
from celerity_py.vocabulary.accesses import READ, Port

if TYPE_CHECKING:
    from celerity_py.fusion.kernels import TracedKernel
    from celerity_py.fusion.memories import Scratch
    from celerity_py.vocabulary.submissions import Submission

_MOST_PLANS: Final = 256  # of a function; the oldest one goes first
_MOST_VARIANTS: Final = 8  # of a plan with other values from outside
_SMALL_STRIDE: Final = 2**31
_SCRATCH_ALIGNMENT: Final = 256
_NUMBERS: Final = (int, float, complex, np.number)


class Target(Protocol):
    """A kind of device."""

    #: Makes a kernel of (function, name, chunk, index space, arguments, submission).
    make: Callable[..., Any]

    def begin(self) -> None:
        """A submit may load code. Each rank by itself: it depends on a rank's chunks which traces it lacks."""

    def items(self, made: Any) -> list[tuple[list[int], int]]:
        """By function, the bounds of its items, low and high per dimension, and in how many parts they are computed."""

    def compile(self, made: Any, *, contracts: bool, has_small_strides: bool) -> Compiled:
        """The functions of its passes.

        Args:
            made: The kernel.
            contracts: Whether a product and a sum may be rounded as one.
            has_small_strides: Whether all strides fit into 32 bits.
        """


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compiled:
    """The functions of a structure, for as long as this object lives."""

    #: By pass, the functions, those without vectors, and their threads, as `_native.FusedLaunch` takes them.
    passes: list[tuple[list[int], list[int], Any]]
    #: Has the machine code; None if it stays loaded anyway.
    code: Any = None


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Plan:
    """The launches of submits of one kind."""

    native: _native.FusedLaunch
    scalars: Packer
    #: Over the values from outside that hold for the trace; None if there are none.
    outside: Watch | None
    #: Positions of the plain arguments that hold for the trace. The others are scalars.
    fixed: tuple[int, ...]
    #: The chunks of this rank, and what was made for each.
    made: tuple[tuple[_native.Box, TracedKernel], ...]
    #: Positions of the reductions into which some chunk combines values.
    combined: frozenset[int]
    #: With CHECK, how often each chunk has run: by its lowest coordinates, and those behind its highest ones.
    calls: dict[tuple[Any, Any], int] = field(default_factory=dict, init=False)
    #: With CHECK, the reasons that were told why calls are not compared.
    told: set[str] = field(default_factory=set, init=False)


class FusedPlans:
    """The plans of one function for one runtime. Of the application's threads, one at a time.

    The function comes with each submit. Kept here, a method would keep its object, and that the buffers of the program.
    """

    def __init__(self, name: str, target: Target, inside: set[int], *, contracts: bool = False) -> None:
        self._contracts = contracts
        self._name = f"fused_{re.sub(r'[^0-9A-Za-z_]', '_', name)}"
        self._target = target
        self._inside = inside
        self._plans: dict[Any, list[Plan]] = {}
        self._needed: set[int] = set()  # arguments whose values some trace has asked for
        self._structures: dict[tuple[type, ...], Structures] = {}
        self._compiled: WeakValueDictionary[tuple[str, bool], Compiled] = WeakValueDictionary()
        #: Those of the structures that the last call of the function has given.
        self.texts: tuple[str, ...] = ()
        #: All that was made, by text.
        self.made: dict[str, TracedKernel] = {}
        #: Why Python runs some submits; empty if it runs none.
        self.why_not = ""
        self._not_taken: set[Any] = set()  # keys of submits that Python runs

    def prepare(self, submission: Submission, local: _native.LocalAccesses) -> Plan | None:
        """The plan of a submit.

        Args:
            submission: With the function as the program wrote it.
            local: What the chunks of this rank access.

        Returns:
            None if Python has to run the function, because it does what is not fused yet. The first time warns.

        Raises:
            UsageError: If the function does what no fused kernel can.
            BaseException: Any exception of the function.
        """
        key = self._key_of(submission, local)
        if key in self._not_taken:
            return None
        plan = self._find(key)
        if plan is None:
            self._target.begin()
            try:
                plan = self._make(submission, local)
            except NotTakenError as error:
                self._leave(key, submission, error)
                return None
            variants = self._plans.setdefault(self._key_of(submission, local), [])
            variants.insert(0, plan)
            del variants[_MOST_VARIANTS:]
            if len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def _key_of(self, submission: Submission, local: _native.LocalAccesses) -> Any:
        space: Any = submission.box
        kinds: list[Any] = [local.key, space.min, space.max]
        places: dict[int, int] = {}
        for position, arg in enumerate(submission.args):
            if arg.__class__ is Port:
                first = places.setdefault(arg.buffer_id, position)
                kinds += [arg.kind, arg.record.shape, first]
            elif arg.__class__ is ReductionPort:
                kinds += [arg.kind, arg.record.shape]
            elif type(arg) is np.ndarray:
                kinds += [arg.dtype, arg.shape, arg.tobytes() if position in self._needed else None]
            elif _is_fixed(arg, position, self._needed):
                kinds += [type(arg), repr(arg)]
            else:
                kinds.append(type(arg))
        return tuple(kinds)

    def _find(self, key: Any) -> Plan | None:
        for plan in self._plans.get(key, ()):
            if plan.outside is None or plan.outside.find_moved() is None:
                return plan
        return None

    def _make(self, submission: Submission, local: _native.LocalAccesses) -> Plan:
        args = submission.args
        for arg in args:
            if type(arg) is not np.ndarray and not isinstance(
                arg, (PortRecord, *_NUMBERS, str, type(None), tuple, np.dtype, type)
            ):
                raise NotTakenError(f"An argument of type {type(arg).__name__} is not fused yet.")
        reached = self._reach(submission)
        num_modules = len(sys.modules)
        chunks = local.chunks()
        arguments = _arguments_of(args, [regions for _, regions in chunks])
        made = [self._trace(submission, box, given) for (box, _), given in zip(chunks, arguments, strict=True)]
        if len(sys.modules) != num_modules:  # the function has imported one
            reached = self._reach(submission)
        types = tuple(map(type, args))
        structures = self._structures.setdefault(
            types, Structures(submission.name, _names_of(submission.function, len(args)))
        )
        places = [structures.place_of(one, args) for one in made]
        self.texts = tuple(dict.fromkeys(one.text for one in made))
        self.made = {**{one.text: one for one in made}, **self.made}
        self._needed.update(*(one.needed for one in made))
        needed: set[int] = set().union(*(one.needed for one in made))
        fixed = tuple(
            position
            for position, arg in enumerate(args)
            if not isinstance(arg, PortRecord) and _is_fixed(arg, position, needed)
        )
        boxes = [box for box, _ in chunks]
        native, scalars = self._launch(list(zip(boxes, arguments, strict=True)), made, places, args)
        made_of = tuple(zip(boxes, made, strict=True))
        combined = frozenset().union(*(one.combined for one in made))
        return Plan(native, Packer(scalars), self._watch(reached, submission.function), fixed, made_of, combined)

    @staticmethod
    def _reach(submission: Submission) -> dict[str, Reached]:
        """The values from outside that the function reaches."""
        reached, unseen = reach(submission.function)
        if unseen:
            raise NotTakenError(
                f"It uses '{unseen[0]}' from outside, and nobody could tell whether a later submit finds another value "
                f"there. Pass the number as an argument, or read it from a variable or a plain attribute."
            )
        for words, found in reached.items():
            if found.kept.kind == "array":
                raise UsageError(
                    f"{submission.describe()} is a fused kernel, and its function uses the array '{words}' from "
                    f"outside, whose changes nobody would notice. Make it a buffer, and pass an access to it."
                )
        return reached

    def _watch(self, reached: dict[str, Reached], function: Callable[..., Any]) -> Watch | None:
        """Over the values that a function reaches, and over its own code."""
        values, own = [*reached.values()], keep(function)
        if own is not None:
            function = getattr(function, "__func__", function)
            values.append(Reached(Place(lambda: function, (), self._name), own))
        return Watch(values) if values else None

    def _trace(self, submission: Submission, box: Any, arguments: Sequence[Any]) -> Any:
        return _native.call_inside(
            self._inside, self._target.make, submission.function, self._name, box, submission.box, arguments, submission
        )

    def _launch(
        self,
        chunks: list[tuple[_native.Box, list[Any]]],
        made: list[Any],
        places: list[int],
        args: Sequence[Any],
    ) -> tuple[_native.FusedLaunch, tuple[tuple[Parameter, np.dtype[Any]], ...]]:
        memories = [_memory_of(args, position) for position in (made[0].accesses if made else ())]
        has_small_strides = all(
            arg.record.dtype.itemsize * math.prod(arg.record.shape[1:]) < _SMALL_STRIDE
            for arg in args
            if isinstance(arg, PortRecord)
        )
        structures: dict[int, tuple[int, Any]] = {}
        code = []  # of the functions, which lives as long as the launch
        scalars: list[tuple[Parameter, np.dtype[Any]]] = []
        natives = []
        for place, one in zip(places, made, strict=True):
            if place not in structures:
                first, size = (SCALAR_BYTES * num_places(some) for some in (scalars, one.scalars))
                code.append(self._compile(one, has_small_strides))
                structures[place] = len(structures), (code[-1].passes, first, size)
                scalars += one.scalars
        for (box, given), place, one in zip(chunks, places, made, strict=True):
            scratch, size = _lay_out(one.scratch)
            items, parts = self._target.items(one), _parts_of(given, one.accesses)
            natives.append((box, structures[place][0], items, list(one.numbers), scratch, size, parts))
        native = _native.FusedLaunch(memories, [made_of for _, made_of in structures.values()], natives, code)
        return native, tuple(scalars)

    def _compile(self, made: Any, has_small_strides: bool) -> Compiled:
        key = made.text, has_small_strides
        found = self._compiled.get(key)
        if found is None:
            found = self._target.compile(made, contracts=self._contracts, has_small_strides=has_small_strides)
            self._compiled[key] = found
        return found

    def _leave(self, key: Any, submission: Submission, error: NotTakenError) -> None:
        """Leave submits of this kind to Python from now on."""
        if len(self._not_taken) >= _MOST_PLANS:
            self._not_taken.clear()
        self._not_taken.add(key)
        if self.why_not:
            return
        self.why_not = str(error)
        warnings.warn_explicit(
            f"{submission.describe()} runs as a Python kernel, which is slower, with the same results. {error} (Said "
            f"once per function.)",
            CelerityWarning,
            submission.code.co_filename,
            submission.line,
        )


def _arguments_of(args: Sequence[Any], regions: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """What a trace takes, by chunk: accesses with their regions, and everything else as it is."""
    arguments = [list(args) for _ in regions]
    ports = [position for position, arg in enumerate(args) if arg.__class__ is Port]
    for position, of_chunks in zip(ports, zip(*regions, strict=True), strict=bool(regions)):
        most = max(len(region.boxes) for region in of_chunks) if args[position].wraps else 0
        for given, region in zip(arguments, of_chunks, strict=True):
            given[position] = _argument_of(args[position], region, most)
    return arguments


def _argument_of(port: Port, region: Any, num_parts: int) -> AccessArgument:
    nothing = [0] * port.record.box.ndim
    bounding = region.bounding_box if region else _native.Box(nothing, nothing)
    boxes = list(region.boxes) or [bounding]
    parts = (*boxes, *[boxes[0]] * (num_parts - len(boxes))) if num_parts > 1 else ()
    declared = None if len(region.boxes) == 1 else region
    return AccessArgument(port.record, bounding, declared, port.mode != READ, parts)


def _parts_of(arguments: Sequence[Any], accesses: Sequence[int]) -> list[_native.Box]:
    """By memory its part of a periodic access; an empty box of other accesses. Nothing if no access has parts."""
    following = {
        position: iter(arg.parts)
        for position, arg in enumerate(arguments)
        if arg.__class__ is AccessArgument and arg.parts
    }
    nothing = _native.Box([0], [0])
    return [next(following[position]) if position in following else nothing for position in accesses if following]


def _is_fixed(arg: Any, position: int, needed: set[int]) -> bool:
    """Whether a plain argument is no scalar: another value is another trace."""
    return position in needed or not (is_parameter(arg) or type(arg) is np.ndarray)


def _names_of(function: Callable[..., Any], count: int) -> list[str]:
    """Those of the arguments behind the chunk."""
    code = getattr(function, "__code__", None)
    first = 2 if hasattr(function, "__self__") else 1
    names = [] if code is None else list(code.co_varnames[first : code.co_argcount])
    return [*names, *(f"argument {number + 1}" for number in range(len(names), count))]


def _memory_of(args: Sequence[Any], position: int) -> tuple[int, int, int, list[int], bool]:
    """The memory behind an argument, as `_native.FusedLaunch` takes it."""
    kind, record = args[position].__class__, args[position].record
    dtype, ndim = record.dtype, record.box.ndim
    inner = _strides_of(dtype.shape, dtype.base.itemsize)
    if kind is ReductionPort and ndim == 0:
        inner = [dtype.itemsize]  # as the maker sees it
    alike = [place for place, arg in enumerate(args) if arg.__class__ is kind]
    return alike.index(position), ndim, dtype.itemsize, inner, kind is ReductionPort


def _strides_of(shape: tuple[int, ...], itemsize: int) -> list[int]:
    """Those of an array in C order, in bytes."""
    return [itemsize * math.prod(shape[dim + 1 :]) for dim in range(len(shape))]


def _lay_out(scratch: Sequence[Scratch]) -> tuple[list[tuple[int, list[int]]], int]:
    """Where the parts of scratch memory lie, as `_native.FusedLaunch` takes them, and the bytes of all of them."""
    parts, begin = [], 0
    for one in scratch:
        strides = _strides_of(one.shape, one.dtype.itemsize)
        origin = sum(low * stride for low, stride in zip(one.origin, strides, strict=True))
        parts.append((begin - origin, strides))
        size = one.dtype.itemsize * math.prod(one.shape)
        begin += -(-size // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
    return parts, begin
