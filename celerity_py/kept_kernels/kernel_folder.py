# SPDX-License-Identifier: MIT
"""A folder for compiled kernels. No other user can write to it, because its files run on our devices.

All files are opened through the folder's descriptor, so that the folder that is used is the one that was checked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

_MAGIC: Final = b"celerity_py kernel 2\n"
_LOCK_POLL_S: Final = 0.02
_MOST_KEPT_BYTES: Final = 256 << 20
_KEPT_AFTER_PRUNING: Final = 0.75  # of these
_DAY_S: Final = 86400.0  # a use is noted once a day; older temporary files are garbage
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX: Final = ".kernel"

_warned: set[str] = set()


class KernelFolder:
    """Results of the compiler by key. Processes and threads may use the same folder at the same time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        """Made by `open_folder`."""
        self._descriptor = descriptor
        self._path = path

    def read(self, key: str) -> bytes | None:
        """The contents that were written under a key; None if there are none, or none that can be trusted."""
        name = key + _SUFFIX
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor
            )
        except FileNotFoundError:
            return None
        except OSError as error:  # a symbolic link, for instance
            warn_once(f"{self._path / name} is not used, because it is no plain file: {error.strerror}. Remove it.")
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            problem = _problem_with(status)
            if problem or not stat.S_ISREG(status.st_mode):
                warn_once(f"{self._path / name} is not used, because it {problem or 'is no plain file'}. Remove it.")
                return None
            contents = file.read()
            if time.time() - status.st_mtime > _DAY_S:  # notes the use, for `prune`
                with contextlib.suppress(OSError):
                    os.utime(descriptor)
        head = _MAGIC + key.encode() + b"\n"  # a file under another name is not taken for this result
        digest, _, rest = contents.removeprefix(head).partition(b"\n")
        if not contents.startswith(head) or hashlib.sha256(rest).hexdigest().encode() != digest:
            _log.info("%s is damaged and will be written anew.", self._path / name)
            return None
        return rest

    def write(self, key: str, contents: bytes) -> None:
        """Keep something under a key, whole or not at all; a problem is logged."""
        unfinished = f"{key[:16]}.{os.getpid()}.{time.monotonic_ns()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(unfinished, flags, 0o600, dir_fd=self._descriptor)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_MAGIC + key.encode() + b"\n" + hashlib.sha256(contents).hexdigest().encode() + b"\n")
                    file.write(contents)
                # In one step, because other processes may be reading.
                os.replace(unfinished, key + _SUFFIX, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            except OSError:
                os.unlink(unfinished, dir_fd=self._descriptor)
                raise
        except OSError as error:
            _log.info("Compiled kernels cannot be kept: %s", error)

    @contextlib.contextmanager
    def locked(self, name: str, timeout_s: float) -> Iterator[None]:
        """Hold a lock; after the timeout, or where files cannot be locked, go on without."""
        with contextlib.ExitStack() as stack:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
                stack.callback(os.close, descriptor)
                self._wait_for(descriptor, name, timeout_s)
            except OSError as error:
                _log.info("%s cannot be locked: %s", self._path / name, error)
            yield

    def _wait_for(self, descriptor: int, name: str, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    path = self._path / name
                    _log.warning("Another process has been holding %s for %g s; going on without.", path, timeout_s)
                    return
                time.sleep(_LOCK_POLL_S)
            else:
                return

    def prune(self, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        """Remove the results that have not been used for longest, if there are more than so many bytes.

        A process that reads such a result meanwhile has it open, or compiles again.
        """
        found = []
        with contextlib.suppress(OSError):
            with os.scandir(self._descriptor) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                with contextlib.suppress(OSError):  # another process has removed it
                    status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
                    if name.endswith(_SUFFIX):
                        found.append((status.st_mtime, status.st_size, name))
                    elif not name.endswith(".lock") and time.time() - status.st_mtime > _DAY_S:
                        os.unlink(name, dir_fd=self._descriptor)
        total = sum(size for _, size, _ in found)
        if total <= most_bytes:
            return
        for _, size, name in sorted(found):
            if total <= most_bytes * _KEPT_AFTER_PRUNING:
                break
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
            total -= size


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[KernelFolder | None]:
    """Make a folder if there is none, and open it.

    The folder has the mode 0700 afterwards, with any umask.

    Yields:
        None, after a warning, if the folder cannot be made, or if another user may write to it.
    """
    try:
        _make(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            warn_once(f"Compiled kernels are not kept: {path} is a symbolic link. Set XDG_CACHE_HOME, or remove it.")
        else:
            _log.info("Compiled kernels cannot be kept: %s", error)
        yield None
        return
    try:
        status = os.fstat(descriptor)
        problem = _problem_with(status)
        if problem:
            warn_once(
                f"Compiled kernels are neither kept in {path} nor taken from there: it {problem}, who could make this "
                f"program run other kernels. Use `chmod 700` if it is yours, or set XDG_CACHE_HOME."
            )
            yield None
            return
        if stat.S_IMODE(status.st_mode) != 0o700:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o700)
        yield KernelFolder(descriptor, path)
    finally:
        os.close(descriptor)


def _make(path: Path) -> None:
    missing = []
    while not path.exists() and not path.is_symlink():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            folder.mkdir(0o700)


def _problem_with(status: os.stat_result) -> str:
    """Why a file or folder cannot be trusted, as the rest of a sentence; "" if it can."""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def warn_once(text: str) -> None:
    """Log a warning that has not been logged yet."""
    if text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)
