# SPDX-License-Identifier: BSD-3-Clause
"""Handles of library objects that must be destroyed, and prepared operands."""
import sys
import threading
from contextlib import contextmanager
from typing import TypeVar

from ._library import lib
from .errors import BadArgument, check


_Self = TypeVar("_Self", bound="Closing")
# a build of CPython without the global interpreter lock
_WITHOUT_GIL = not getattr(sys, "_is_gil_enabled", lambda: True)()


class Handle:
    """A library object that is destroyed when it is closed and no call uses it any more.

    A user first notes itself and then looks whether the object is closed; close() first closes it
    and then looks for users.  So one of both sees the other, under the interpreter's lock, or that
    of the object where there is none."""

    def __init__(self, pointer, end, what):
        self._pointer, self._end, self._what = pointer, end, what
        self._lock, self._users, self._closed = threading.Lock(), [], False

    @contextmanager
    def use(self):
        """Keeps the object alive in a `with` block, which gets its pointer."""
        self.acquire()
        try:
            yield self._pointer
        finally:
            self.release()

    def acquire(self):
        """Notes one more user; refuses a closed object."""
        if _WITHOUT_GIL:
            with self._lock:        # orders this before the look at _closed, for other threads
                self._users.append(None)
        else:
            self._users.append(None)
        if self._closed:
            self.release()
            raise BadArgument(f"{self._what} is closed")

    def release(self):
        """Notes one user less."""
        self._users.pop()
        if self._closed:
            self._destroy()

    def close(self):
        """Destroys the object, or has the last user do so."""
        with self._lock:
            self._closed = True
        self._destroy()

    def _destroy(self):
        """Destroys a closed object once nobody uses it."""
        with self._lock:
            end = None if self._users else self._end
            if end:
                self._end = None
        if end:
            end(self._pointer)


class Closing:
    """Can be closed by close() or a `with` block; losing the last reference closes it, too."""
    _handle: Handle

    def close(self) -> None:
        """Closes it; it is destroyed when no call, and nothing made from it, uses it any more."""
        self._handle.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self):
        if hasattr(self, "_handle"):
            self._handle.close()


class Operand(Closing):
    """A matrix for many products, scanned and packed once; made by Context.prepare.  It keeps a
    reference to the array; close(), or a `with` block, ends that."""

    def __init__(self, context, x, left, view, handle):
        self.context, self.x, self.left = context, x, left
        self._view, self._handle = view, handle

    def check(self) -> None:
        """Raises BadArgument if the elements have changed since the operand was made."""
        with self._handle.use() as pointer:
            check(lib.limber_prepared_check(pointer))
