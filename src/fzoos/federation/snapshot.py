"""A client's state beside its journal, so that a restarted site need not answer all of its requests again.

The journal is what counts. A snapshot says how far in the journal it is, by the number of rows of each table and the
link of the last one; later requests are answered again from there. A snapshot that is missing, damaged, of another
version of the program or of another journal is ignored, and the whole journal is answered again.

    b"fzoos snapshot 2\\n"   SHA-256 of all that follows (32 bytes)   header and named arrays, as in `messages/codec.py`

header   about: study, site and version of the program; mark: how far in the journal; read: the rows of the journal when
         all of it was read last; numbers: the finite ones of the state, by name (others are arrays without a
         dimension); kinds: dtype and memory order of the arrays that are not float64 in C order

Reading it gives numbers and arrays, never an object. It holds what is in the journal or follows from it; only its owner
can read it (0600). A new snapshot is written to a file of its own, which then takes the place of the old one: a process
that is killed leaves one of both. It is not forced to the disk: a power cut may damage it, which its digest shows.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fzoos import __version__
from fzoos._util.states import StateDict
from fzoos.federation.journal import Mark
from fzoos.messages.codec import pack, unpack

__all__ = ["Snapshot", "SnapshotFile"]

_MAGIC = b"fzoos snapshot 2\n"
_GROWN, _FEW = 1.25, 1000  # the whole journal is read again when it has grown by a quarter and 1000 rows
_NO_LIMIT = 2**60  # it is our own file
_KINDS = ("<f8", "<i8", "<u8")
_ORDERS = ("C", "F")

log = logging.getLogger("fzoos")


@dataclass(frozen=True)
class Snapshot:
    """A client's state after a reply."""

    mark: Mark  # how far in the journal that was
    read: int  # rows of the journal when all of it was read the last time
    state: StateDict  # as `Client.state` returned it

    @property
    def is_long_ago(self) -> bool:
        """Whether the journal's old rows should be read again, to see whether they are what they were.

        Reading them for every message would cost more and more; so every row is read some five times in all.
        """
        rows = sum(count for count, _ in self.mark.values())
        return rows > _GROWN * self.read + _FEW


class SnapshotFile:
    """The file of a site's snapshot."""

    def __init__(self, journal: Path, study: str, site: str) -> None:
        self.path = journal.with_name(journal.name + ".snapshot")
        self._about = {"study": study, "site": site, "version": __version__}

    def read(self) -> Snapshot | None:
        """The snapshot; None where there is none that can be used, and the log says why."""
        try:
            return self._parsed(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # of a file that anybody may have written
            self.ignore(str(error))
            return None

    def _parsed(self, data: bytes) -> Snapshot:
        head = len(_MAGIC) + 32
        if not data.startswith(_MAGIC) or hashlib.sha256(memoryview(data)[head:]).digest() != data[head - 32 : head]:
            raise ValueError("it is damaged, or of another version of the program")
        header, arrays = unpack(data[head:], _NO_LIMIT, _NO_LIMIT, _NO_LIMIT)
        if header["about"] != self._about:
            raise ValueError("it was written by another version of the program, or for another study")
        if not all(isinstance(value, (int, float)) for value in header["numbers"].values()):
            raise ValueError("it has something other than numbers and arrays")
        mark = {table: (int(count), bytes.fromhex(link)) for table, (count, link) in header["mark"].items()}
        state = {name: _as_before(array, header["kinds"].get(name)) for name, array in arrays.items()}
        numbers = header["numbers"] | {name: float(array) for name, array in state.items() if not array.ndim}
        return Snapshot(mark, int(header["read"]), {**state, **numbers})

    def ignore(self, why: str) -> None:
        """Say in one line that it is not used."""
        log.warning("the snapshot %s is not used: %s; the whole journal is answered again", self.path, why)

    def write(self, snapshot: Snapshot) -> None:
        """Replace the snapshot.

        Raises:
            OSError: it cannot be written.
            ValueError, TypeError: the state has something other than numbers and arrays of numbers.
        """
        numbers: dict[str, Any] = {}
        arrays: dict[str, NDArray[np.float64]] = {}
        kinds: dict[str, list[str]] = {}
        for name, value in snapshot.state.items():
            if isinstance(value, np.ndarray) or (isinstance(value, float) and not math.isfinite(value)):
                arrays[name], kind = _as_float64(np.asarray(value))
                kinds |= {} if kind == [_KINDS[0], _ORDERS[0]] else {name: kind}
            elif value is not None:
                numbers[name] = value
        mark = {table: [count, link.hex()] for table, (count, link) in snapshot.mark.items()}
        header = {"about": self._about, "mark": mark, "read": snapshot.read, "numbers": numbers, "kinds": kinds}
        data = pack(header, arrays)
        new = self.path.with_name(self.path.name + ".new")
        with suppress(FileNotFoundError):
            new.unlink()  # of a process that was killed
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_MAGIC + hashlib.sha256(data).digest())
            file.write(data)
        os.replace(new, self.path)


def _as_float64(array: NDArray[Any]) -> tuple[NDArray[np.float64], list[str]]:
    """The array as it is written, with the same bits, and its dtype and memory order, on which last bits may depend."""
    found = array.astype(np.float64) if array.dtype == np.bool_ else array
    if found.dtype.str not in _KINDS:
        raise TypeError(f"an array of {array.dtype} cannot be stored")
    order = "F" if found.flags.f_contiguous and not found.flags.c_contiguous else "C"
    return np.asarray(found.T if order == "F" else found, order="C").view("<f8"), [found.dtype.str, order]


def _as_before(array: NDArray[np.float64], kind: Any) -> NDArray[Any]:
    """The array of which `_as_float64` made this."""
    dtype, order = kind or (_KINDS[0], _ORDERS[0])
    if dtype not in _KINDS or order not in _ORDERS:
        raise ValueError(f"it has an array of the kind {kind}")
    found = array.view(dtype)
    return found.T if order == "F" else found
