"""What Telltale knows about the field: data with a source for each row, loaded when it is first asked for.

Each part has a module of its own that reads its YAML; this one only puts them together. No code here decides
anything about a cluster.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functions.knowledge.devices import DeviceKnowledge
    from functions.knowledge.mapping import MappingKnowledge
    from functions.knowledge.renames import Catalogue
    from functions.knowledge.sentinels import Sentinels
    from functions.knowledge.signals import Signals


class Knowledge:
    """All parts, each read on first use: a check that needs no renames does not pay for them."""

    @cached_property
    def devices(self) -> DeviceKnowledge:
        """Spellings of a GPU."""
        from functions.knowledge.devices import load_devices

        return load_devices()

    @cached_property
    def mapping(self) -> MappingKnowledge:
        """What label-mapping knows about exporters."""
        from functions.knowledge.mapping import load_mapping

        return load_mapping()

    @cached_property
    def renames(self) -> Catalogue:
        """Documented renames."""
        from functions.knowledge.renames import load_renames

        return load_renames()

    @cached_property
    def signals(self) -> Signals:
        """Concepts, and the metric names under which exporters tell them."""
        from functions.knowledge.signals import load_signals

        return load_signals()

    @cached_property
    def sentinels(self) -> Sentinels:
        """Codes that mean "no value"."""
        from functions.knowledge.sentinels import load_sentinels

        return load_sentinels()


@lru_cache(maxsize=1)
def load() -> Knowledge:
    """The knowledge that is shipped, one object for the whole process."""
    return Knowledge()
