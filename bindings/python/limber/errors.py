# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions by status of a failed call, and checks of arguments before calls."""
import enum
import operator

from ._library import lib


class Status(enum.IntEnum):
    """Why a call failed, as limber_status in C."""
    OK = 0
    BAD_ARGUMENT = 1
    NO_SCHEME = 2
    RANGE = 3
    NO_MEMORY = 4
    IO = 5
    DEVICE = 6
    INTERNAL = 7
    NOT_READY = 8


class LimberError(Exception):
    """A call of Limber failed and has written nothing; `status` is the kind of error, the text
    names the cause."""
    status = Status.INTERNAL


class BadArgument(LimberError, ValueError):
    """An argument is wrong; the text names it."""
    status = Status.BAD_ARGUMENT


class NoScheme(LimberError):
    """No way to compute keeps the contract for this data."""
    status = Status.NO_SCHEME


class OutOfRange(LimberError, OverflowError):
    """A result does not fit its format."""
    status = Status.RANGE


class NoMemory(LimberError, MemoryError):
    """There is not enough memory."""
    status = Status.NO_MEMORY


class FileError(LimberError, OSError):
    """A file or folder cannot be read or written."""
    status = Status.IO


class DeviceError(LimberError, RuntimeError):
    """The device or its driver failed, or there is none."""
    status = Status.DEVICE


class NotReady(LimberError, RuntimeError):
    """The kernel is still being compiled, and the caller asked not to wait for it."""
    status = Status.NOT_READY


class InternalError(LimberError, RuntimeError):
    """An error inside Limber, not in what the caller passed."""
    status = Status.INTERNAL


_BY_STATUS = {kind.status: kind for kind in (BadArgument, NoScheme, OutOfRange, NoMemory,
                                             FileError, DeviceError, InternalError,
                                             NotReady)}


def check(status):
    """Raises the exception for a status that this thread's last call returned."""
    if status:
        text = lib.limber_error_text() or lib.limber_status_meaning(status)
        text = text.decode(errors="replace")
        if text.startswith("run: c overlaps "):     # Python's name for C
            text = "out" + text[len("run: c"):]
        text = text.replace("conv.dilate[", "dilation[").replace(" dilate[", " dilation[")
        raise _BY_STATUS.get(status, InternalError)(text)


WORD = 2 ** 63 - 1      # largest 64-bit integer


def integer(x, what, least=-2 ** 31, most=2 ** 31 - 1):
    """x as an int for a C integer; ctypes would truncate it silently."""
    try:
        value = operator.index(x)
    except TypeError:
        raise BadArgument(f"{what} = {x!r} is no whole number") from None
    if not least <= value <= most:
        raise BadArgument(f"{what} = {value} is not from {least} to {most}")
    return value


def listed(x, what):
    """x as a list; a string is refused, because it would become a list of letters."""
    try:
        if not isinstance(x, (str, bytes)):
            return list(x)
    except TypeError:
        pass
    raise BadArgument(f"{what} = {x!r} is no list")
