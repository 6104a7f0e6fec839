"""What a release did to its names as a whole: a prefix swapped, a unit appended, one word for another.

Learned from the pairs that are plain already, and applied to the others: a rule that explains ten renames is strong
evidence for the eleventh, and a name to which the rule would have applied and which it does not explain is suspect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from functions.knowledge.renames_words import Reading

#: One edit of a name: the words that went, the words that came, and whether it is at the beginning or the end.
Edit = tuple[tuple[str, ...], tuple[str, ...], str]
#: From so many other pairs on an edit is a rule of the release.
_RULE = 3
#: From so many on what all new names begin with is a rule, not an accident.
_MANY = 6
#: Share of the names it could have changed that it did change, for a rule without exceptions.
_ALWAYS = 0.9


@lru_cache(maxsize=65536)
def edits(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[Edit, ...]:
    """What must be done to the words of one name to get the other."""
    found = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            place = "first" if a == 0 and c == 0 else "last" if b == len(old) and d == len(new) else "within"
            found.append((old[a:b], new[c:d], place))
    return tuple(found)


def contrasts(groups: Iterable[Iterable[Reading]]) -> frozenset[frozenset[str]]:
    """Words that tell metrics apart that exist side by side: `sent` and `received`, where both `x_sent` and `x_received` do.

    Whoever drops the one and adds the other has renamed nothing. Each group is of names that exist at one time.
    """
    found: set[frozenset[str]] = set()
    for group in groups:
        siblings: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = {}
        for reading in group:
            for at, word in enumerate(reading.words):
                siblings.setdefault((reading.words[:at], reading.words[at + 1 :]), set()).add(word)
        for words in siblings.values():
            # many words in one place are a dimension written into names (numbered lanes, say): each tells apart
            found |= {frozenset((a, b)) for a in words for b in words if a < b}
    return frozenset(found)


def contrast(old: Reading, new: Reading, known: frozenset[frozenset[str]]) -> float:
    """Down to -1 where the names differ in words that are known to tell metrics apart."""
    gone, came = [w for w in old.words if w not in new.words], [w for w in new.words if w not in old.words]
    told = sum(any(frozenset((a, b)) in known for b in came) for a in gone)
    return -told / len(gone) if gone else 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The edits of the plain pairs, how often each, and what the new names begin with, by the old first word."""

    counts: Mapping[Edit, int]
    plain: frozenset[tuple[tuple[str, ...], tuple[str, ...]]]
    prefixes: Mapping[str, tuple[str, ...]]

    def explains(self, old: Reading, new: Reading) -> float:
        """From -1 (a rule without exception was broken) over 0 (nothing known) to 1 (every edit is a known rule)."""
        if not self.plain:
            return 0.0
        own = 1 if (old.raw, new.raw) in self.plain else 0
        done = edits(old.raw, new.raw)
        if not done:
            return 1.0
        support = sum(min(1.0, max(0, self.counts.get(edit, 0) - own) / _RULE) for edit in done) / len(done)
        prefix = self.prefixes.get(old.raw[0])
        if prefix and new.raw[: len(prefix)] != prefix:
            return support - 1.0
        return support


NO_RULES = Rules({}, frozenset(), {})


def rules(pairs: Iterable[tuple[Reading, Reading]]) -> Rules:
    """The rules that these pairs, taken for plain, show together."""
    held = [(old.raw, new.raw) for old, new in pairs]
    if len(held) < 2:
        return NO_RULES
    counts = Counter(edit for old, new in held for edit in edits(old, new))
    return Rules(counts, frozenset(held), _prefixes(held))


def _prefixes(held: Iterable[tuple[tuple[str, ...], tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """What the new names begin with, by the first word of the old ones, where nearly all agree."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for old, new in held:
        groups.setdefault(old[0], []).append(new)
    found = {}
    for first, names in groups.items():
        if len(names) < _MANY:
            continue
        prefix: tuple[str, ...] = ()
        while True:
            ranked = Counter(n[: len(prefix) + 1] for n in names if len(n) > len(prefix) + 1).most_common(1)
            if not ranked or ranked[0][1] < _ALWAYS * len(names):
                break
            prefix = ranked[0][0]
        if prefix:
            found[first] = prefix
    return found
