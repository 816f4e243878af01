# SPDX-License-Identifier: MIT
"""The one place that reads `CELERITY_` variables: one table, validated at start, passed down as a frozen dataclass."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack, get_args

from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Intracomm

PREFIX = "CELERITY_"

_BYTES: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class DeviceChoice:
    """Which devices a rank drives.

    `kind` is "default", "count" (of devices), "list" (of the host's devices) or "cpu" (CPU devices per rank).
    """

    kind: str = "default"
    count: int = 1
    indices: tuple[int, ...] = ()

    def __str__(self) -> str:
        """As it is written in `CELERITY_DEVICES`."""
        if self.kind == "list":
            return ",".join(map(str, self.indices)) + ("," if self.count == 1 else "")
        return f"cpu:{self.count}" if self.kind == "cpu" else str(self.count)


@dataclass(frozen=True)
class MemoryBudget:
    """The memory of each GPU that a rank may take for buffers: so many bytes, or a share of it in percent."""

    count: int
    unit: str

    def of(self, total_bytes: int) -> int:
        """In bytes, of a GPU with so many."""
        if self.unit == "%":
            return total_bytes * self.count // 100
        return min(total_bytes, self.count * _BYTES[self.unit])

    def __str__(self) -> str:
        """As it is written in `CELERITY_GPU_MEMORY`."""
        return f"{self.count}{self.unit}"


@dataclass(frozen=True)
class TaskWindow:
    """The tasks that graphs show: from `first` to before `end`, counted in tasks or in horizons.

    Negative numbers count from the end, and None has no limit there, both as in slices of Python.
    """

    unit: Literal["tasks", "horizons"] = "tasks"
    first: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        """As it is written in `CELERITY_PRINT_GRAPHS_WINDOW`."""
        letter = "H" if self.unit == "horizons" else ""
        return ":".join("" if limit is None else f"{letter}{limit}" for limit in (self.first, self.end))


Backend: TypeAlias = Literal["auto", "cuda", "cpu"]
LogLevel: TypeAlias = Literal["trace", "debug", "info", "warning", "error", "off"]
Lookahead: TypeAlias = Literal["none", "auto", "infinite"]
Record: TypeAlias = Literal["auto", "explicit"]
Transport: TypeAlias = Literal["auto", "host", "direct"]
Poll: TypeAlias = Literal["adaptive", "spin"]
KernelOrder: TypeAlias = Literal["age", "path", "predecessors"]


class Settings(TypedDict, total=False):
    """The arguments of `celerity.configure`, for type checkers and editors; `Configuration` decides."""

    backend: Backend | None
    devices: str | int | Sequence[int] | None
    log_level: LogLevel | None
    lookahead: Lookahead | None
    record: Record | None
    horizon_step: int | None
    horizon_max_parallelism: int | None
    run_ahead: int | None
    transport: Transport | None
    poll: Poll | None
    check: bool | None
    bounds_check: bool | None
    sync: bool | None
    kernel_lanes: int | None
    kernel_order: KernelOrder | None
    gpu_memory: str | None
    stats: bool | str | os.PathLike[str] | None
    trace: bool | str | os.PathLike[str] | None
    live: bool | None
    nvtx: bool | None
    print_graphs: bool | str | os.PathLike[str] | None
    print_graphs_window: str | None
    dry_run_ranks: int | None
    dry_run_rank: int | None
    stall_s: int | None
    snapshots: str | None
    comm: Comm | None


def _choice(words: Any, meant: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """One of the words of a literal; `meant` maps words that people write instead to the right ones."""
    choices = get_args(words)

    def parse(text: str) -> str:
        value = text.strip().lower()
        if value in choices:
            return value
        close = [meant[value]] if meant and value in meant else difflib.get_close_matches(value, choices, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"one of {', '.join(choices)}{hint}")

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return value

    return parse


def _switch(text: str) -> bool:
    value = text.strip().lower()
    if value in {"1", "on", "true", "yes"}:
        return True
    if value in {"0", "off", "false", "no"}:
        return False
    raise ValueError("0 or 1")


def _output(default_name: str) -> Callable[[str], str]:
    """Off, on with a default name, or on with the given name."""

    def parse(text: str) -> str:
        try:
            return default_name if _switch(text) else ""
        except ValueError:
            return text.strip()

    return parse


def parse_window(text: str) -> TaskWindow:
    """The window of a text such as "10:40", "T10:T40", "-20:" or "H2:H5".

    Raises:
        ValueError: With the texts that are understood.
    """
    found = re.fullmatch(r"([TH]?)(-?\d+)?:([TH]?)(-?\d+)?", text.strip().upper())
    letters = set() if found is None else {found[1], found[3]} - {""}
    is_complete = found is not None and all(found[i + 1] is not None or not found[i] for i in (1, 3))
    if found is None or not is_complete or len(letters) > 1:
        raise ValueError(
            "tasks such as '10:40' (T10 to T39) or '-20:' (the last 20), horizons such as 'H2:H5' or 'H-2:', or ':'"
        )
    first, end = (None if found[i] is None else int(found[i]) for i in (2, 4))
    return TaskWindow("horizons" if letters == {"H"} else "tasks", first, end)


def _devices(text: str) -> DeviceChoice:
    expected = "a count such as '2', a list such as '0,2' or '2,', or CPU devices per rank such as 'cpu:4'"
    value = text.strip().lower()
    if not value:
        return DeviceChoice()
    kind, colon, number = value.partition(":")
    if colon:
        if kind != "cpu" or not number.isdecimal() or not 1 <= int(number) <= 62:
            raise ValueError(f"{expected}; at most 62 devices per rank")
        return DeviceChoice("cpu", int(number))
    if "," in value:
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if not parts or not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
            raise ValueError(f"{expected}; a list names each device once")
        indices = tuple(int(part) for part in parts)
        return DeviceChoice("list", len(indices), indices)
    if not value.isdecimal() or not 1 <= int(value) <= 62:
        raise ValueError(f"{expected}; for GPU 0 alone '0,'" if value == "0" else expected)
    return DeviceChoice("count", int(value))


def _budget(text: str) -> MemoryBudget:
    units = {unit.lower(): unit for unit in ("%", *_BYTES)}
    found = re.fullmatch(r"(\d+) ?(%|\w+)", text.strip())
    unit = None if found is None else units.get(found[2].lower())
    if found is None or unit is None or int(found[1]) == 0 or (unit == "%" and int(found[1]) > 100):
        raise ValueError("a share such as '40%', or a size such as '20GB' or '512MiB'")
    return MemoryBudget(int(found[1]), unit)


def _communicator(given: Any) -> Any:
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(given, mpi.Comm) and not given:
        raise ValueError(
            "a communicator to which this process belongs, not COMM_NULL. Let only the ranks of the communicator call "
            "configure and make queues"
        )
    if mpi is None or not isinstance(given, mpi.Intracomm):
        raise ValueError("an intracommunicator of mpi4py, which only a program can give: celerity.configure(comm=comm)")
    return given


def _setting(default: Any, parse: Callable[[str], Any], *, is_own: bool = False) -> Any:
    """A field of `Configuration`.

    Args:
        default: Its value if nobody sets it.
        parse: Makes the value of a text; raises `ValueError` with the texts that it expects.
        is_own: Whether ranks may have different values. Settings that influence planning must be the same.
    """
    return field(default=default, metadata={"parse": parse, "is_own": is_own})


@dataclass(frozen=True)
class Configuration:
    """The validated settings, from variables and `celerity.configure`; `docs/configuration.md` explains each."""

    backend: str = _setting("auto", _choice(Backend, meant={"gpu": "cuda", "cupy": "cuda", "numpy": "cpu"}))
    devices: DeviceChoice = _setting(DeviceChoice(), _devices, is_own=True)  # noqa: RUF009 - a field
    log_level: str = _setting("warning", _choice(LogLevel), is_own=True)
    lookahead: str = _setting("auto", _choice(Lookahead), is_own=True)
    record: str = _setting("auto", _choice(Record), is_own=True)
    horizon_step: int = _setting(4, _integer(1, 65536))
    horizon_max_parallelism: int = _setting(64, _integer(1, 65536))
    run_ahead: int = _setting(16, _integer(2, 65536), is_own=True)
    transport: str = _setting("auto", _choice(Transport))
    poll: str = _setting("adaptive", _choice(Poll), is_own=True)
    check: bool = _setting(default=False, parse=_switch)
    bounds_check: bool = _setting(default=False, parse=_switch, is_own=True)
    sync: bool = _setting(default=False, parse=_switch, is_own=True)
    kernel_lanes: int = _setting(12, _integer(1, 12), is_own=True)
    kernel_order: str = _setting("age", _choice(KernelOrder), is_own=True)
    #: None: all that there is.
    gpu_memory: MemoryBudget | None = _setting(None, _budget, is_own=True)  # noqa: RUF009 - a field
    stats: str = _setting("", _output("celerity_stats"), is_own=True)
    trace: str = _setting("", _output("celerity_trace"), is_own=True)
    live: bool = _setting(default=False, parse=_switch)
    #: None: if a profiler has started this process.
    nvtx: bool | None = _setting(None, _switch, is_own=True)
    #: The folder for the graphs of the run; empty: no graphs are kept.
    print_graphs: str = _setting("", _output("celerity_graphs"), is_own=True)
    print_graphs_window: TaskWindow = _setting(TaskWindow("tasks", -50), parse_window, is_own=True)  # noqa: RUF009 - a field
    dry_run_ranks: int = _setting(0, _integer(0, 65536))
    dry_run_rank: int = _setting(0, _integer(0, 65535), is_own=True)
    stall_s: int = _setting(60, _integer(0, 10**9))
    #: The folder of checkpoints in memory, of `celerity-py run --restarts`; empty: nobody keeps them.
    snapshots: str = _setting("", str.strip)
    #: The ranks of this communicator run the program; None: all that the launcher has started.
    comm: Any = _setting(None, _communicator, is_own=True)  # noqa: RUF009 - a field


#: The fields of `Configuration`, by their names as environment variables without the prefix.
_TABLE: Final = {field.name.upper(): field for field in fields(Configuration)}


def _remedy(name: str, spell: Callable[[str], str]) -> str:
    """The nearest name to an unknown one, or else all names, as `spell` writes them."""
    close = difflib.get_close_matches(name, _TABLE, n=1, cutoff=0.5)
    known = ", ".join(map(spell, close or _TABLE))
    return f"Did you mean {known}?" if close else f"Known are {known}."


def _parse(name: str, text: Any, shown: str) -> Any:
    """The value of variable `name`; `shown` is how the user wrote the assignment."""
    setting = _TABLE[name]
    try:
        return setting.metadata["parse"](text)
    except ValueError as error:
        raise ConfigurationError(f"{shown} is not understood: expected {error}.") from None


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"  # which is no number
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "".join(f"{item}," for item in value)
    return str(value)


def read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The non-empty `CELERITY_` variables without their prefix.

    Raises:
        ConfigurationError: If one is unknown; the message suggests the nearest name.
    """
    found: dict[str, str] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        if name not in _TABLE:
            remedy = _remedy(name, PREFIX.__add__)
            raise ConfigurationError(f"Unknown environment variable {variable}={text!r}. {remedy}")
        if text.strip():
            found[name] = text
    return found


def resolve(environ: Mapping[str, str], settings: Mapping[str, Any]) -> Configuration:
    """Validate and combine; a setting made in code wins over the environment, and the environment over the defaults.

    Args:
        environ: All environment variables of the process.
        settings: Values by lower-case name, as passed to `configure`.

    Raises:
        ConfigurationError: If a variable is unknown or malformed, or if two contradict each other.
    """
    # The environment is validated even where code overrides it: otherwise a typo shows only without the override.
    texts = read_environment(environ)
    given = {name.lower(): _parse(name, text, f"{PREFIX}{name}={text}") for name, text in texts.items()}
    values = Configuration(**{**given, **settings})
    devices = values.devices
    if values.backend == "cuda" and devices.kind == "cpu":
        raise ConfigurationError(
            f"BACKEND=cuda contradicts DEVICES={devices}, which asks for CPU devices. Unset one of the two."
        )
    if values.backend == "cpu" and devices.kind == "list":
        raise ConfigurationError(
            f"DEVICES={devices} lists GPUs of the host, but BACKEND=cpu. For CPU devices with own memory set "
            f"DEVICES=cpu:{devices.count}."
        )
    if values.dry_run_rank >= max(values.dry_run_ranks, 1):
        raise ConfigurationError(
            f"DRY_RUN_RANK={values.dry_run_rank}, but DRY_RUN_RANKS={values.dry_run_ranks}. Ranks count from 0, so "
            f"that DRY_RUN_RANKS must be larger."
        )
    return values


def compared_settings(settings: Configuration) -> dict[str, Any]:
    """The settings that must be the same on every rank, by their names as environment variables."""
    shared = (setting for setting in fields(settings) if not setting.metadata["is_own"])
    return {PREFIX + setting.name.upper(): getattr(settings, setting.name) for setting in shared}


def changed_settings(settings: Configuration) -> dict[str, Any]:
    """The settings that differ from their defaults, by their names as environment variables."""
    shown = (setting for setting in fields(settings) if setting.name != "comm")
    changed = (setting for setting in shown if getattr(settings, setting.name) != setting.default)
    return {PREFIX + setting.name.upper(): getattr(settings, setting.name) for setting in changed}


_settings: dict[str, Any] = {}
_running: Configuration | None = None  # the settings of the runtime, while there is one


def configure(**settings: Unpack[Settings]) -> None:
    """Set configuration variables from code. A value given here wins over the environment variable.

    Call it before the first buffer or queue, from one thread, on every rank with the same values. While the runtime
    runs, `configure` accepts only the values that the runtime has, so that the cells of a notebook may run again.

    Args:
        settings: Variables by their lower-case name without prefix, such as `devices="cpu:4"`, `lookahead="none"`,
            `check=True`. `None` takes an earlier setting back. `comm=` is a communicator of mpi4py: its ranks run the
            program instead of all ranks of the launcher. It may be freed after the first queue is made.

    Raises:
        ConfigurationError: If a name is unknown, a value malformed, or if the runtime runs with other values.
    """
    parsed: dict[str, Any] = {}
    for name, value in settings.items():
        if name.upper() not in _TABLE or not name.islower():
            remedy = _remedy(name.upper(), str.lower)
            raise ConfigurationError(f"configure() got an unknown setting {name}={value!r}. {remedy}")
        if value is not None:
            given = value if name == "comm" else _text_of(value)
            parsed[name] = _parse(name.upper(), given, f"configure({name}={value!r})")
    if _running is not None:
        _refuse_changes(_running, settings, parsed)
    for name in settings:
        _settings.pop(name, None)
    _settings.update(parsed)


def _refuse_changes(running: Configuration, settings: Settings, parsed: Mapping[str, Any]) -> None:
    unchanged = {name for name in settings if name not in parsed and name not in _settings}
    unchanged |= {name for name, value in parsed.items() if value == getattr(running, name)}
    changed = [name for name in settings if name not in unchanged]
    if changed:
        values = ", ".join(f"{name}={getattr(running, name)}" for name in changed)
        raise ConfigurationError(
            f"configure({', '.join(changed)}) comes too late: the runtime is running with {values}. Call it before the "
            f"first Buffer or Queue, or after the last queue is closed (in a notebook: restart the kernel)."
        )


def current() -> Configuration:
    """Validate everything; it may still change.

    Raises:
        ConfigurationError: As `resolve` does.
    """
    return resolve(os.environ, _settings)


def communicator() -> Intracomm | None:
    """The communicator that the program has given."""
    return _settings.get("comm")


def freeze() -> Configuration:
    """Validate everything and refuse further changes until `thaw`; called by the runtime when it starts."""
    global _running  # noqa: PLW0603 - one runtime per process
    _running = current()
    return _running


def thaw() -> None:
    """Allow `configure` again; called by the runtime when it has ended, or has failed and allows another."""
    global _running  # noqa: PLW0603
    _running = None
