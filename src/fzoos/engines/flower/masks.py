"""The masks of secure aggregation, expanded from their seeds by AES.

SecAgg+ hides a client's vector behind pseudo-random masks that cancel in the sum (Bonawitz et al. 2017, Bell et al.
2020). Flower 1.41 folds a mask's seed of 256 bits into 32 and passes those to a Mersenne Twister: whoever sees a masked
vector can try all seeds in hours. The protocol requires a secure generator: AES in counter mode in the authors' own
implementation, and here, from the `cryptography` package. Server and sites must use the same one.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from numpy.typing import NDArray

__all__ = ["masks", "use_strong_masks"]

_USERS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)


def masks(seed: bytes, modulus: int, shapes: list[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Return arrays of these shapes, uniform on 0, ..., modulus - 1 (a power of two), determined by the seed."""
    digest = Hash(SHA256())
    digest.update(seed)
    # The key is used for this stream only, so that the counter may start at zero.
    stream = Cipher(algorithms.AES(digest.finalize()), modes.CTR(bytes(16))).encryptor()
    words = (np.frombuffer(stream.update(bytes(8 * int(np.prod(shape)))), "<u8") for shape in shapes)
    return [(word & np.uint64(modulus - 1)).astype(np.int64).reshape(s) for word, s in zip(words, shapes, strict=True)]


def use_strong_masks() -> None:
    """Make both halves of Flower's SecAgg+ use `masks`."""
    for name in _USERS:
        module = import_module(name)
        if not hasattr(module, "pseudo_rand_gen"):
            raise RuntimeError(f"{name} has no pseudo_rand_gen: secure aggregation needs Flower 1.41")
        module.pseudo_rand_gen = masks  # type: ignore[attr-defined]
