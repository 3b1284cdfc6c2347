"""What the library has made for objects of this package, and is to end when they are gone."""

import contextlib
import ctypes
import weakref
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import _library, errors


class _Loan(NamedTuple):
    borrower: Callable[[], Any]  # None when it is gone
    name: str
    handles: Tuple[ctypes.c_void_p, ...]  # the first is what is ended; null where nothing is


class Loans:
    """Memory of arrays and optimizers of a communicator, each with how it is ended.

    An object may go anywhere: within a call of the library, in another thread, in a garbage
    collection, in an interrupt. So nothing depends on its last words: who makes or ends something
    looks for loans whose borrowers are gone. From any thread.
    """

    def __init__(self) -> None:
        self._loans: Dict[int, _Loan] = {}

    def add(self, borrower: Any, name: str, *handles: ctypes.c_void_p,
            at_once: bool = False) -> None:
        """Has the library's function `name` called for `handles` when `borrower` is gone.

        Before the call that sets the first handle, so that an interrupt in between loses nothing.

        Args:
          at_once: tried as soon as it is gone, and not only when something else is made or ended.
        """
        borrowed = weakref.ref(borrower, self._on_return if at_once else None)
        loan = _Loan(borrowed, name, handles)
        self._loans[id(loan)] = loan

    def add_unused(self, name: str, *handles: ctypes.c_void_p) -> None:
        """The same, of what nobody has."""
        loan = _Loan(lambda: None, name, handles)
        self._loans[id(loan)] = loan

    def count(self, name: str) -> int:
        """How many that `name` ends are still used."""
        return sum(loan.name == name and bool(loan.handles[0]) and loan.borrower() is not None
                   for loan in self._loans.copy().values())

    def end_unused(self) -> None:
        """Ends what nobody has any more.

        Raises:
          WrongThreadError: another thread, or this one further up, is within a call; what has not
            been ended will be.
        """
        self._end(lambda loan: loan.borrower() is None)

    def end_all_of(self, name: str) -> None:
        """Ends all that `name` ends, whoever has them; raises as end_unused."""
        self._end(lambda loan: loan.name == name)

    def _end(self, chosen: Callable[[_Loan], bool]) -> None:
        # A copy, since a collection at any point may end some.
        for key, loan in self._loans.copy().items():
            if not chosen(loan):
                continue
            if loan.handles[0]:
                # What is none any more was ended by another thread, or before an interrupt.
                with contextlib.suppress(errors.InvalidArgumentError, errors.InvalidHandleError):
                    _library.call(loan.name, *loan.handles)
                loan.handles[0].value = None
            self._loans.pop(key, None)

    def _on_return(self, _: Optional[Any]) -> None:
        with contextlib.suppress(errors.WrongThreadError, errors.ForkedError):
            self.end_unused()
