"""The store of the tests of what is served."""

from tests.functions.conftest import kept, one_redis

__all__ = ["kept", "one_redis"]
