"""The content of a Flower message: the codec's bytes, and the site that it is addressed to.

The bytes are sent as an array, which Flower splits into pieces of a few megabytes, so that a message of any length
passes the size limits of proxies. (In a `ConfigRecord` they would be one piece, and 80 MB would take ten seconds.)
"""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fzoos.messages.codec import MessageError

__all__ = ["ANSWER", "SITE", "pack", "unpack"]

ANSWER = "query"  # Flower's message type for a request
SITE = "query.site"  # and for the question which site a node is

_DATA, _ADDRESS = "fzoos", "fzoos.address"


def pack(data: bytes, site: str) -> RecordDict:
    """Return a message's content."""
    array = Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)
    return RecordDict({_DATA: ArrayRecord({"data": array}), _ADDRESS: ConfigRecord({"site": site})})


def unpack(content: RecordDict) -> tuple[bytes, str]:
    """Return the bytes and the site of a message; raise a `MessageError` for any other content."""
    record, address = content.get(_DATA), content.get(_ADDRESS)
    if not isinstance(record, ArrayRecord) or list(record) != ["data"]:
        raise MessageError(f"the message has no array record {_DATA!r} with one array 'data'")
    site = address.get("site") if isinstance(address, ConfigRecord) else None
    if not isinstance(site, str):
        raise MessageError("the message does not say which site it belongs to")
    return record["data"].data, site
