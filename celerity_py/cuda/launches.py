# SPDX-License-Identifier: MIT
"""Makes native launches of submitted `CudaKernel`s: checks at the first submit, and packs values at each submit.

A plan belongs to a kernel and to the kinds of its arguments: modes, dtypes and dimensions of buffers, operations of
reductions, Python types of values. The second submit with the same kinds finds the plan in the memo of the kernel.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import numpy as np

from celerity_py import _native
from celerity_py.cuda import compilation
from celerity_py.cuda.compilation import CompilationError, Program
from celerity_py.cuda.signatures import Parameter, Signature, parse_signature, spelling_of
from celerity_py.kernels import CudaKernel
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.vocabulary.accesses import MODE_NAMES, READ, Port
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.submissions import Submission
from celerity_py.vocabulary.type_rules import describe_type

#: Threads per block, by the dimensions of the index space; x is the last one.
DEFAULT_BLOCKS: Final = ((), (256,), (8, 32), (4, 8, 8))
FREE_SHARED_BYTES: Final = 48 * 1024  # dynamic shared memory that every kernel may use

#: The formats of `struct` for the types that NumPy gives other letters.
_FORMATS: Final = {"l": "q", "L": "Q", "F": "2f", "D": "2d"}
_NUMBERS: Final = (bool, int, float, complex, np.bool_, np.number)


class LaunchingRuntime(Protocol):
    """The runtime, as far as launches know it."""

    #: The `Devices` of this rank.
    devices: Any
    #: The settings.
    configuration: Any

    def drain(self) -> None:
        """Wait until no stream of this rank waits for another rank, or is going to."""


class LaunchPlan:
    """A kernel that fits its arguments, compiled and loaded; packs values that are not known before the submit."""

    __slots__ = ("_converts", "_pack", "_scalars", "function")

    @property
    def packing(self) -> tuple[Callable[..., bytes], list[int]] | None:
        """A function that packs values without conversion, and their positions; None if some must be converted."""
        return None if self._converts else (self._pack, [position for position, _ in self._scalars])

    def __init__(self, function: Any, scalars: list[tuple[int, Parameter]]) -> None:
        """`scalars`: positions among the arguments, and the parameters that take the values there."""
        #: The `_native.CudaFunction`.
        self.function = function
        self._scalars = scalars
        codes = [parameter.dtype.char for _, parameter in scalars if parameter.dtype is not None]
        self._pack = struct.Struct("=" + "".join(_FORMATS.get(code, code) for code in codes)).pack
        self._converts = "F" in codes or "D" in codes

    def pack(self, submission: Submission) -> bytes:
        """The raw bytes of the values among the arguments, one after the other.

        Raises:
            UsageError: If a value does not fit into the type that the kernel declares.
        """
        args = submission.args
        if not self._converts:
            try:
                return self._pack(*[args[position] for position, _ in self._scalars])
            except (struct.error, OverflowError, TypeError):
                pass  # a float that is a whole number, or a mistake
        values: list[Any] = []
        for position, parameter in self._scalars:
            converted = _convert(args[position], parameter, position, submission)
            values += [converted.real, converted.imag] if isinstance(converted, complex) else [converted]
        return self._pack(*values)


def prepare_launch(
    runtime: LaunchingRuntime, submission: Submission, known: LaunchPlan | None
) -> tuple[LaunchPlan, bytes] | None:
    """Return the plan of a launch, and the raw bytes of its scalars; None if Python runs the kernel.

    Args:
        runtime: The runtime to which it is submitted.
        submission: The submission of the kernel.
        known: The plan of an earlier submit with these kinds of arguments. Without one, this checks and compiles.

    Raises:
        UsageError: If kernel and arguments do not fit each other, or if the kernel does not compile.
    """
    if submission.function.__class__ is not CudaKernel:
        return None
    plan = _make_plan(runtime, submission) if known is None else known
    return plan, plan.pack(submission)


def program_of(kernel: CudaKernel, assertions: Iterable[str] = (), *, checks_bounds: bool = False) -> Program:
    """Return the input of a kernel's compilation, with static assertions behind its source."""
    options: tuple[str, ...] = ("-DCELERITY_BOUNDS_CHECK=1",) if checks_bounds else ()
    if kernel.items:
        options += (f"-DCELERITY_ITEMS={','.join(map(str, (1, 1, *kernel.items)[-3:]))}",)
    return Program(kernel.source, kernel.name, options, tuple(assertions))


def _make_plan(runtime: LaunchingRuntime, submission: Submission) -> LaunchPlan:
    kernel: CudaKernel = submission.function
    who = f"{submission.describe()}, {kernel!r}"
    signature = parse_signature(kernel.source, kernel.name, who)
    matcher = _Matcher(signature, submission)
    matcher.check()
    dims = signature.dims
    block, grid = _shape_of_launch(kernel, dims, who)
    ordinals = runtime.devices.ordinals
    checks_bounds = runtime.configuration.bounds_check
    program = program_of(kernel, matcher.assertions, checks_bounds=checks_bounds)
    if not compilation.is_loaded(program, ordinals):
        # Loading code waits for all streams, and a stream may wait for another rank, which waits for this one.
        runtime.drain()
    try:
        functions = compilation.load(program, ordinals)
    except CompilationError as error:
        raise UsageError(
            f"{who} does not compile. Its source is that of the CudaKernel made at {kernel.site}, lines count from "
            f"its first one. The compiler says:\n{error}"
        ) from None
    _check_resources(kernel, functions, ordinals, block, who)
    function = _native.CudaFunction(
        functions=functions,
        block=block,
        grid=grid,
        shared_bytes=kernel.shared_bytes,
        parameters=matcher.natives,
        checks_bounds=checks_bounds,
        items=kernel.items or (),
    )
    return LaunchPlan(function, matcher.scalars)


def _shape_of_launch(kernel: CudaKernel, dims: int, who: str) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    for name, extents in (("block", kernel.block), ("grid", kernel.grid), ("items", kernel.items)):
        # A single item may be worked on by many threads.
        if extents is not None and len(extents) != max(dims, 1) and extents != ():
            raise DimensionMismatch(
                f"{who} has {name}={extents} with {len(extents)} dimension(s), but its chunk has {dims}."
            )
        if extents == () and dims > 0:
            raise DimensionMismatch(f"{who} has {name}=() with 0 dimensions, but its chunk has {dims}.")
    return (DEFAULT_BLOCKS[dims] if kernel.block is None else kernel.block), kernel.grid


def _check_resources(
    kernel: CudaKernel, functions: list[int], ordinals: tuple[int, ...], block: tuple[int, ...], who: str
) -> None:
    threads = int(np.prod(block, dtype=np.int64))
    for function, ordinal in zip(functions, ordinals, strict=True):
        most_threads = compilation.most_threads(function, ordinal)
        if threads > most_threads:
            raise UsageError(
                f"{who} has blocks of {threads} threads {block}, but each thread takes so many registers that GPU "
                f"{ordinal} has room for {most_threads}. Use smaller blocks, or __launch_bounds__({threads})."
            )
        if kernel.shared_bytes > FREE_SHARED_BYTES:
            most_bytes = compilation.allow_shared_bytes(function, ordinal, kernel.shared_bytes)
            if kernel.shared_bytes > most_bytes:
                raise UsageError(
                    f"{who} has shared_bytes={kernel.shared_bytes}, but GPU {ordinal} has {most_bytes} bytes of "
                    f"dynamic shared memory for one block of it."
                )


class _Matcher:
    """Compares the parameters of a kernel with the arguments of a launch, and says where they differ."""

    def __init__(self, signature: Signature, submission: Submission) -> None:
        self._signature = signature
        self._submission = submission
        #: Positions among the arguments.
        self.scalars: list[tuple[int, Parameter]] = []
        #: Checks that only the compiler can do.
        self.assertions: list[str] = []
        #: The parameters as `_native.CudaFunction` takes them.
        self.natives: list[tuple[str, int, int, bytes]] = [("chunk", signature.dims, 0, b"")]

    def check(self) -> None:
        """Compare, and note the values that the plan needs.

        Raises:
            UsageError: If an argument does not fit its parameter.
        """
        space: Any = self._submission.box
        if space.ndim != self._signature.dims:
            raise DimensionMismatch(
                f"{self._submission.describe()}: the index space {show(space)} has {space.ndim} dimension(s), but the "
                f"CUDA kernel takes a {self._signature.parameters[0].text}. Nothing was submitted."
            )
        parameters = self._signature.parameters[1:]
        args = self._submission.args
        if len(parameters) != len(args):
            raise ArgumentTypeError(
                f"{self._submission.describe()} is called with {len(args)} argument(s), but the CUDA kernel "
                f"{self._signature} takes {len(parameters)} behind its chunk. Nothing was submitted."
            )
        for position, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            if isinstance(arg, Port):
                self._check_access(position, parameter, arg)
            elif isinstance(arg, ReductionPort):
                self._check_reduction(position, parameter, arg)
            else:
                self._check_value(position, parameter, arg)

    def _check_access(self, position: int, parameter: Parameter, port: Port) -> None:
        record = port.record
        mode = MODE_NAMES[port.mode]
        what = f"a {mode} access to {record.label}"
        if parameter.kind != "accessor":
            self._refuse(position, parameter, what, f"Buffers are passed as {_accessor_for(port)}.")
        if parameter.dims != len(record.shape):
            difference = f"The buffer has {len(record.shape)} dimension(s), the accessor {parameter.dims}."
            self._refuse(position, parameter, what, difference, DimensionMismatch)
        if parameter.dtype is None and record.dtype.kind == "V":
            element, size = parameter.element, record.dtype.itemsize
            self.assertions.append(
                f'static_assert(sizeof({element}) == {size}, "{element} has another size than the elements of the '
                f'buffer, which have {size} bytes");'
            )
        elif parameter.dtype != record.dtype:
            self._refuse_element(position, parameter, what, record.dtype)
        if port.mode == READ and not parameter.is_const:
            self._refuse(position, parameter, what, f"To read only, it must be const: {_accessor_for(port)}.")
        if port.mode != READ and parameter.is_const:
            remedy = f"To be written, its elements must not be const: {_accessor_for(port)}. Or use buffer.read()."
            self._refuse(position, parameter, what, remedy)
        if port.wraps != parameter.wraps:
            mapper = "goes on at the opposite side" if port.wraps else "ends at the buffer"
            remedy = f"A mapper {'with' if port.wraps else 'without'} wrap=True needs {_accessor_for(port)}."
            self._refuse(position, parameter, what, f"Its mapper {mapper}. {remedy}")
        kind = "periodic_accessor" if parameter.wraps else "accessor"
        self.natives.append((kind, parameter.dims, record.dtype.itemsize, b""))

    def _check_reduction(self, position: int, parameter: Parameter, port: ReductionPort) -> None:
        record = port.record if port.ordered is None else port.ordered.buffer.record
        what = f"the reduction {port.op!r} into {record.label}"
        if parameter.kind not in {"reducer", "ordered_reducer"}:
            self._refuse(position, parameter, what, f"Reductions are passed as {_reducer_for(port)}.")
        if (parameter.kind == "ordered_reducer") != port.needs_order:
            why = (
                "With deterministic=True its blocks combine in a fixed order, and threads only by combine_block(value)."
                if port.needs_order
                else "An ordered_reducer takes sums and products of floating-point or complex numbers with "
                "deterministic=True; the order of all others makes no difference."
            )
            self._refuse(position, parameter, what, f"{why} Write {_reducer_for(port)}.")
        if parameter.dtype != port.record.dtype:
            self._refuse_element(position, parameter, what, port.record.dtype)
        if parameter.op != port.op:
            self._refuse(position, parameter, what, f"The kernel combines by {parameter.op!r}.")
        if port.needs_order:
            self.natives.append(("reducer", 1, 0, np.asarray(port.identity, port.record.dtype).tobytes()))
            return
        shape = port.record.shape
        if parameter.dims != len(shape) and (parameter.dims > 0 or port.shape != ()):
            have = f"the reducer {parameter.dims}" if parameter.dims > 0 else "the reducer is for a single element"
            difference = f"The buffer has {len(shape)} dimension(s) and the shape {shape}, {have}. Write "
            self._refuse(position, parameter, what, difference + f"{_reducer_for(port)}.", DimensionMismatch)
        identity = np.asarray(port.identity, port.record.dtype).reshape(-1)[:1]  # the same for all elements
        self.natives.append(("reducer", parameter.dims, 0, identity.tobytes()))

    def _check_value(self, position: int, parameter: Parameter, value: Any) -> None:
        what = f"{value!r} of type {type(value).__name__}"
        if parameter.kind != "scalar":
            need = "an access such as buffer.read(mapper)" if parameter.kind == "accessor" else "celerity.reduction()"
            self._refuse(position, parameter, what, f"The kernel needs {need} there.")
        if isinstance(value, ctypes.c_void_p):
            if parameter.dtype != np.uint64:
                self._refuse(position, parameter, what, "An address is an `unsigned long long` of the kernel.")
        elif not isinstance(value, _NUMBERS):
            self._refuse(position, parameter, what, "The values that a CudaKernel takes are numbers.")
        assert parameter.dtype is not None
        if parameter.dtype.kind == "b" and not isinstance(value, bool | np.bool_):
            self._refuse(position, parameter, what, "Pass a bool.")
        if parameter.dtype.kind != "c" and isinstance(value, complex | np.complexfloating):
            self._refuse(position, parameter, what, f"It does not convert to {parameter.dtype}. Pass its real part.")
        self.natives.append(("scalar", 0, parameter.dtype.itemsize, b""))
        self.scalars.append((position, parameter))

    def _refuse_element(self, position: int, parameter: Parameter, what: str, dtype: np.dtype[Any]) -> None:
        have = f" ({describe_type(parameter.dtype)})" if parameter.dtype is not None else ""
        spelling = spelling_of(dtype)
        remedy = (
            f"Write {spelling} in the kernel." if spelling else f"Use a type of {dtype.itemsize} bytes of your own."
        )
        self._refuse(
            position,
            parameter,
            what,
            f"The buffer's elements are {describe_type(dtype)}, those of the parameter {parameter.element}{have}. "
            f"{remedy}",
        )

    def _refuse(
        self, position: int, parameter: Parameter, what: str, why: str, kind: type[UsageError] = ArgumentTypeError
    ) -> None:
        raise kind(
            f"{self._submission.describe()}: argument {position + 1}, {what}, does not fit the parameter "
            f"`{parameter.text}` of the CUDA kernel. {why} Nothing was submitted."
        )


def _accessor_for(port: Port) -> str:
    element = spelling_of(port.record.dtype) or "T"
    wrap = ", celerity::wrap" if port.wraps else ""
    return f"accessor<{'const ' if port.mode == READ else ''}{element}, {len(port.record.shape)}{wrap}>"


def _reducer_for(port: ReductionPort) -> str:
    known = OPERATIONS.get(port.op)
    dims = f", {len(port.record.shape)}" if port.shape != () else ""
    element, op = spelling_of(port.record.dtype) or "T", known.device_type if known is not None else port.op
    if port.needs_order:
        return f"celerity::ordered_reducer<{element}, celerity::{op}>"
    return f"celerity::reducer<{element}, celerity::{op}{dims}>"


def _convert(value: Any, parameter: Parameter, position: int, submission: Submission) -> Any:
    """A number of the kind that the parameter is, with the same value."""
    dtype = parameter.dtype
    assert dtype is not None
    if isinstance(value, ctypes.c_void_p):
        value = value.value or 0
    why = f"does not convert to {dtype}"
    try:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            why = f"is not a whole number from {limits.min} to {limits.max}"
            whole = int(value)
            if whole == value and limits.min <= whole <= limits.max:
                return whole
        elif dtype.kind == "f":  # rounds, as every conversion to floating point does
            struct.pack("=" + dtype.char, value)
            return float(value)
        elif dtype.kind == "c":
            number = complex(value)
            struct.pack("=" + _FORMATS[dtype.char], number.real, number.imag)
            return number
        else:
            return bool(value)
    except (OverflowError, ValueError, TypeError, struct.error):  # NaN, infinity, or too large
        pass
    raise UsageError(
        f"{submission.describe()}: argument {position + 1}, {value!r} of type {type(value).__name__}, does not fit the "
        f"parameter `{parameter.text}` of the CUDA kernel: it {why}. Nothing was submitted."
    )
