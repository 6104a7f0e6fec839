"""How much two HELP texts say the same, weighed against what all texts of the job say.

A text that many names share (`Statistic of the kernel.`) tells nothing about any of them; a rare word tells much. Units
in a text are left out: a release that changes them writes the same sentence otherwise.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from functions.checks.metric_rename.families import Family
from functions.knowledge.renames_words import Words

_WORD = re.compile(r"[a-z]+|\d+")
_IN_BRACKETS = re.compile(r"\([^)]*\)|\[[^\]]*\]")


class Texts:
    """The HELP texts of one job, read once."""

    def __init__(self, families: Iterable[Family], words: Words) -> None:
        self.vocabulary = words
        self._read: dict[str, frozenset[str]] = {}
        texts = [f.help for f in families if f.help]
        self._seen = Counter(self.words(text) for text in dict.fromkeys(texts))
        spread = Counter(word for read in self._seen for word in read)
        self._weights = {word: math.log(1 + len(self._seen) / count) for word, count in spread.items()}

    def words(self, text: str) -> frozenset[str]:
        """The words of a text that may tell something; those in brackets are units and asides."""
        if text not in self._read:
            found = _WORD.findall(_IN_BRACKETS.sub(" ", text).lower())
            self._read[text] = frozenset(self.vocabulary.plain(w) for w in found if not self.vocabulary.says_little(w))
        return self._read[text]

    def likeness(self, a: str, b: str) -> float:
        """0 where they have nothing in common, 1 where they say the same."""
        left, right = self.words(a), self.words(b)
        either = self._weigh(left | right)
        return self._weigh(left & right) / either if either else float(a == b)

    def covers(self, words: Iterable[str], text: str) -> float:
        """The share of these words that a text speaks of."""
        wanted = set(words)
        total = self._weigh(wanted)
        return self._weigh(wanted & self.words(text)) / total if total else 0.0

    def _weigh(self, words: Iterable[str]) -> float:
        return sum(self._weights.get(w, 1.0) for w in words)


def bearers(families: Iterable[Family], texts: Texts) -> Counter[frozenset[str]]:
    """How many of these names say the same as one another: text as words -> names."""
    return Counter(texts.words(f.help) for f in families if f.help)
