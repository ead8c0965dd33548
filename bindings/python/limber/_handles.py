# SPDX-License-Identifier: BSD-3-Clause
"""Handles of library objects that must be destroyed, and prepared operands."""
import threading
from contextlib import contextmanager
from typing import TypeVar

from ._library import lib
from .errors import BadArgument, check


_Self = TypeVar("_Self", bound="Closing")


class Handle:
    """A library object that is destroyed when it is closed and no call uses it any more."""

    def __init__(self, pointer, end, what):
        self._pointer, self._end, self._what = pointer, end, what
        self._lock, self._users, self._closed = threading.Lock(), 0, False

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
        with self._lock:
            if self._closed:
                raise BadArgument(f"{self._what} is closed")
            self._users += 1

    def release(self):
        """Notes one user less."""
        self._leave(1, False)

    def close(self):
        """Destroys the object, or has the last user do so."""
        self._leave(0, True)

    def _leave(self, users, closing):
        """Subtracts users, closes if asked, and destroys the object once nobody needs it."""
        with self._lock:
            first = closing and not self._closed
            self._users -= users
            self._closed = self._closed or closing
            over = self._closed and self._users == 0 and (first or users)
        if over:
            self._end(self._pointer)


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
