# SPDX-License-Identifier: MIT
"""The one place that reads `CELERITY_` variables: one table, validated at start, passed down as a frozen dataclass."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celerity_py.scheduler.errors import ConfigurationError

PREFIX = "CELERITY_"


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
            return "".join(f"{index}," for index in self.indices)
        return f"cpu:{self.count}" if self.kind == "cpu" else str(self.count)


@dataclass(frozen=True)
class Configuration:
    """The validated settings, from variables and `celerity.configure`; the table in the README explains each."""

    backend: str
    devices: DeviceChoice
    log_level: str
    lookahead: str
    horizon_step: int
    horizon_max_parallelism: int
    run_ahead: int
    transport: str
    poll: str
    check: bool
    bounds_check: bool
    sync: bool
    lane_events: bool
    overwrite_waits: str
    kernel_lanes: int
    stats: str
    trace: str
    print_graphs: str
    dry_run_ranks: int
    stall_s: int


def _choice(*choices: str, meant: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """One of some words; `meant` maps words that people write instead to the right ones."""

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


def _devices(text: str) -> DeviceChoice:
    expected = "a count such as '2', a list such as '0,2' or '2,', or CPU devices per rank such as 'cpu:4'"
    value = text.strip().lower()
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


@dataclass(frozen=True)
class _Variable:
    default: str
    parse: Callable[[str], Any]
    #: Values that this version can obey; None means all of them.
    available: tuple[Any, ...] | None = None
    #: Whether ranks may have different values. Settings that influence planning must be the same.
    is_own: bool = False


_TABLE: dict[str, _Variable] = {
    "BACKEND": _Variable("auto", _choice("auto", "cuda", "cpu", meant={"gpu": "cuda", "cupy": "cuda", "numpy": "cpu"})),
    "DEVICES": _Variable("", _devices, is_own=True),
    "LOG_LEVEL": _Variable("warning", _choice("trace", "debug", "info", "warning", "error", "off"), is_own=True),
    "LOOKAHEAD": _Variable("auto", _choice("none", "auto", "infinite"), is_own=True),
    "HORIZON_STEP": _Variable("4", _integer(1, 65536)),
    "HORIZON_MAX_PARALLELISM": _Variable("64", _integer(1, 65536)),
    "RUN_AHEAD": _Variable("16", _integer(2, 65536), is_own=True),
    "TRANSPORT": _Variable("auto", _choice("auto", "host", "direct", "cuda_aware"), ("auto", "host", "direct")),
    "POLL": _Variable("adaptive", _choice("adaptive", "spin"), is_own=True),
    "CHECK": _Variable("0", _switch),
    "BOUNDS_CHECK": _Variable("0", _switch, is_own=True),
    "SYNC": _Variable("0", _switch, is_own=True),
    "LANE_EVENTS": _Variable("1", _switch, is_own=True),
    "OVERWRITE_WAITS": _Variable("device", _choice("host", "device")),
    "KERNEL_LANES": _Variable("12", _integer(1, 12), is_own=True),
    "STATS": _Variable("0", _output("celerity_stats"), is_own=True),
    "TRACE": _Variable("0", _output("celerity_trace"), is_own=True),
    "PRINT_GRAPHS": _Variable("0", _output("celerity_graphs"), ("",)),
    "DRY_RUN_RANKS": _Variable("0", _integer(0, 65536)),
    "STALL_S": _Variable("60", _integer(0, 10**9)),
}


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _TABLE, n=1, cutoff=0.5)
    return close[0] if close else ""


def _parse(name: str, text: str, shown: str) -> Any:
    """The value of variable `name`; `shown` is how the user wrote the assignment."""
    variable = _TABLE[name]
    if name == "DEVICES" and not text.strip():
        return DeviceChoice()
    try:
        value = variable.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"{shown} is not understood: expected {error}.") from None
    if variable.available is not None and value not in variable.available:
        off = variable.default if name in {"BACKEND", "TRANSPORT"} else "0"
        raise ConfigurationError(
            f"{shown} is specified but not implemented yet in this version of celerity_py. "
            f"Leave it unset, or set it to {off!r}."
        )
    return value


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
            suggestion = _suggestion(name)
            known = ", ".join(PREFIX + other for other in _TABLE)
            remedy = f"Did you mean {PREFIX}{suggestion}?" if suggestion else f"Known are {known}."
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
        ConfigurationError: If a variable is unknown, malformed or not implemented, or if two contradict each other.
    """
    texts = read_environment(environ)
    values: dict[str, Any] = {}
    for name, variable in _TABLE.items():
        text = texts.get(name)
        # The environment is validated even where code overrides it: otherwise a typo shows only without the override.
        value = _parse(name, variable.default, name) if text is None else _parse(name, text, f"{PREFIX}{name}={text}")
        values[name.lower()] = settings.get(name.lower(), value)
    if values["backend"] == "cuda" and values["devices"].kind == "cpu":
        raise ConfigurationError(
            f"BACKEND=cuda contradicts DEVICES=cpu:{values['devices'].count}, which asks for CPU devices. "
            f"Unset one of the two."
        )
    if values["backend"] == "cpu" and values["devices"].kind == "list":
        listed = ",".join(map(str, values["devices"].indices))
        raise ConfigurationError(
            f"DEVICES={listed}{',' if values['devices'].count == 1 else ''} lists GPUs of the host, "
            f"but BACKEND=cpu. For CPU devices with own memory set DEVICES=cpu:{values['devices'].count}."
        )
    return Configuration(**values)


def compared_settings(settings: Configuration) -> dict[str, Any]:
    """The settings that must be the same on every rank, by their names as environment variables."""
    return {PREFIX + name: getattr(settings, name.lower()) for name, variable in _TABLE.items() if not variable.is_own}


def changed_settings(settings: Configuration) -> dict[str, Any]:
    """The settings that differ from their defaults, by their names as environment variables."""
    defaults = resolve({}, {})
    values = {name: getattr(settings, name.lower()) for name in _TABLE}
    return {PREFIX + name: value for name, value in values.items() if value != getattr(defaults, name.lower())}


_settings: dict[str, Any] = {}
_started = False


def configure(**settings: Any) -> None:
    """Set configuration variables from code. A value given here wins over the environment variable.

    Call it before the first buffer or queue, on every rank with the same values.

    Args:
        settings: Variables by their lower-case name without prefix, such as `devices="cpu:4"`, `lookahead="none"`,
            `check=True`. `None` takes an earlier setting back.

    Raises:
        ConfigurationError: If a name is unknown, a value malformed or not implemented, or if the runtime is running.
    """
    if _started:
        names = ", ".join(settings)
        raise ConfigurationError(
            f"configure({names}) comes too late: the runtime is running. Call it before the first Buffer or Queue."
        )
    parsed: dict[str, Any] = {}
    for name, value in settings.items():
        if name.upper() not in _TABLE or not name.islower():
            suggestion = _suggestion(name.upper())
            known = ", ".join(_TABLE).lower()
            remedy = f"Did you mean {suggestion.lower()}?" if suggestion else f"Known are {known}."
            raise ConfigurationError(f"configure() got an unknown setting {name}={value!r}. {remedy}")
        if value is not None:
            parsed[name] = _parse(name.upper(), _text_of(value), f"configure({name}={value!r})")
    for name, value in settings.items():
        if value is None:
            _settings.pop(name, None)
        else:
            _settings[name] = parsed[name]


def current() -> Configuration:
    """Validate everything; it may still change.

    Raises:
        ConfigurationError: As `resolve` does.
    """
    return resolve(os.environ, _settings)


def freeze() -> Configuration:
    """Validate everything and refuse further changes until `thaw`; called by the runtime when it starts."""
    global _started  # noqa: PLW0603 - one runtime per process
    configuration = current()
    _started = True
    return configuration


def thaw() -> None:
    """Allow `configure` again; called by the runtime when it has ended."""
    global _started  # noqa: PLW0603
    _started = False


__all__ = [
    "Configuration",
    "DeviceChoice",
    "changed_settings",
    "compared_settings",
    "configure",
    "current",
    "freeze",
    "resolve",
    "thaw",
]
