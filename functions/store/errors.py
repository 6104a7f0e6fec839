"""What can go wrong with the store, classified once. All of it may work later: nothing is lost, senders come back."""

from __future__ import annotations

from redis import exceptions as redis_errors

from functions.contract.errors import Again


class StoreError(Again):
    """The store can't be reached or can't do it now."""


class StoreFull(StoreError):
    """The backlog or the server's memory is full: nothing was taken."""


class StoreCorrupt(StoreError):
    """A stored value is not what was written. It is left where it is; a person has to look."""


class SchemaNewer(StoreError):
    """The data was written by a newer Telltale; this one must not touch it."""


def classify(error: redis_errors.RedisError | OSError) -> StoreError:
    """The error of ours for one of the client's. Never tells an address or a credential."""
    # the client wraps a refused credential into a ConnectionError
    refused = _within(error)
    if refused is not None:
        return StoreError(f"Redis refuses the credential: {refused}")
    text = str(error)
    if isinstance(error, redis_errors.OutOfMemoryError) or text.startswith("OOM"):
        return StoreFull("Redis is out of memory (maxmemory with noeviction): nothing was stored")
    if isinstance(error, redis_errors.ResponseError) and "WRONGTYPE" in text:
        return StoreCorrupt(f"a key of Telltale holds another type: {text}")
    if isinstance(error, redis_errors.ReadOnlyError):
        return StoreError("Redis is a read-only replica")
    if isinstance(error, redis_errors.ResponseError):
        return StoreError(f"Redis: {text}")
    return StoreError(f"Redis is away ({type(error).__name__})")


def _within(error: BaseException | None) -> BaseException | None:
    """The refusal of a credential that an error is or was raised from."""
    while error is not None:
        if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError | redis_errors.NoPermissionError):
            return error
        error = error.__cause__ or error.__context__
    return None
