"""Seeds that are secret until a date: a secret whose hash is public first, and a public value of later."""

from __future__ import annotations

import hashlib


def commitment_of(secret: str) -> str:
    """Return the commitment to a secret, which may be published before the secret: its SHA-256."""
    return hashlib.sha256(f"hdrl commitment {secret}".encode()).hexdigest()


def revealed_seed(secret: str, public: str, name: str) -> int:
    """Return the seed (31 bits) that follows from a revealed secret.

    Parameters
    ----------
    public
        A value that was not known when the secret was committed to, such as the hash of a later public commit: then
        the seed was unknown even to the owner of the secret.
    name
        Purpose of the seed: each thing has its own.
    """
    digest = hashlib.sha256(f"hdrl reveal {secret} {public} {name}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
