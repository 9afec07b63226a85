"""A client's state beside its journal, so that a restart need not answer all requests once more.

The journal is what counts. A snapshot says how far in the journal it is, by the number of rows in each table and the
last one's digest; what came later is answered once more from there. One that is missing, damaged, of another program or
of another journal is left aside, and the whole journal is answered, as if there were none.

    b"fzoos snapshot 1\\n"   SHA-256 of all that follows (32 bytes)   length of the header (8 bytes)   header   arrays

The header is JSON. about, modules: study, site, and which version of the program; mark: how far in the journal; read:
how many rows that had when all of it was read the last time; state, arrays: see `ObjectState`. It holds what the
journal holds, or what follows from it; only its owner can read it (0600). It is written to a file beside it, which then
takes its place: a process that is killed leaves the last one. It is not forced to the disk: after a power cut it may be
damaged, which its digest tells.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fzoos.federation.journal import Mark

__all__ = ["Snapshot", "SnapshotFile"]

_MAGIC = b"fzoos snapshot 1\n"
_GROWN, _FEW = 1.25, 1000  # all of a journal is read again when it has grown by a quarter, and by so many rows

log = logging.getLogger("fzoos")


@dataclass(frozen=True)
class Snapshot:
    """A client's state after an answer.

    Args:
        mark: how far in the journal that was.
        read: rows of the journal when all of it was read the last time.
        nodes: see `ObjectState`.
        arrays: the same.
    """

    mark: Mark
    read: int
    nodes: list[Any]
    arrays: list[NDArray[Any]]

    @property
    def read_again(self) -> bool:
        """Whether the journal's old rows should be read, too, to see whether they are what they were.

        Read for every message, they would cost more and more; so, every row is read some five times in all.
        """
        rows = sum(count for count, _ in self.mark.values())
        return rows > _GROWN * self.read + _FEW


class SnapshotFile:
    """Where a site has its snapshot.

    Args:
        journal: the journal that it belongs to.
        study: id of the study.
        site: name of the site.
    """

    def __init__(self, journal: Path, study: str, site: str) -> None:
        self.path = journal.with_name(journal.name + ".snapshot")
        self._about = {"study": study, "site": site, "version": _version()}

    def read(self) -> Snapshot | None:
        """The last one; None where there is none that can be used, and the log says why."""
        try:
            return self._parsed(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.leave_aside(str(error))
            return None

    def _parsed(self, data: bytes) -> Snapshot:
        head = len(_MAGIC) + 32
        if not data.startswith(_MAGIC) or hashlib.sha256(memoryview(data)[head:]).digest() != data[head - 32 : head]:
            raise ValueError("it is damaged, or of another version of the program")
        length = int.from_bytes(data[head : head + 8], "little")
        header = json.loads(data[head + 8 : head + 8 + length])
        if header["about"] != self._about or header["modules"] != _digests(header["modules"]):
            raise ValueError("another version of the program has written it, or another study")
        mark = {table: (count, bytes.fromhex(link)) for table, (count, link) in header["mark"].items()}
        arrays, start = [], head + 8 + length
        for kind, shape in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(data, kind, count, start).reshape(shape))
            start += arrays[-1].nbytes
        return Snapshot(mark, header["read"], header["state"], arrays)

    def leave_aside(self, why: str) -> None:
        """Say in one line that it is not used."""
        log.warning("the snapshot %s is not used: %s; all of the journal is answered once more", self.path, why)

    def write(self, snapshot: Snapshot, modules: Iterable[str]) -> None:
        """In place of the last one.

        Args:
            snapshot: the new one.
            modules: whose classes are in it: where their source has changed it is of another version.
        """
        header = json.dumps(
            {
                "about": self._about,
                "modules": _digests(modules),
                "mark": {table: [count, link.hex()] for table, (count, link) in snapshot.mark.items()},
                "read": snapshot.read,
                "arrays": [[array.dtype.str, array.shape] for array in snapshot.arrays],
                "state": snapshot.nodes,
            }
        ).encode()
        parts: list[Any] = [len(header).to_bytes(8, "little"), header]
        parts += [np.atleast_1d(array).view(np.uint8).data for array in snapshot.arrays if array.size]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        new = self.path.with_name(self.path.name + ".new")
        with suppress(FileNotFoundError):
            new.unlink()  # of a process that was killed
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_MAGIC + digest.digest())
            for part in parts:
                file.write(part)
        os.replace(new, self.path)


def _version() -> str:
    try:
        return version("fzoos")
    except PackageNotFoundError:
        return ""


def _digests(modules: Iterable[str]) -> dict[str, str]:
    """Of their source files."""
    return {name: hashlib.sha256(_source(name)).hexdigest()[:16] for name in sorted(modules)}


def _source(module: str) -> bytes:
    file = getattr(sys.modules.get(module), "__file__", None)
    with suppress(OSError, ImportError, ValueError):
        spec = None if file else find_spec(module)
        file = spec.origin if spec else file
        return Path(file).read_bytes() if file else b""
    return b""
