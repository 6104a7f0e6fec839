"""HELP texts of drawn metrics: invented from a name's words, never copied, and carried over a release as releases do.

What was read in public sources is only how texts fare: kube-state-metrics, Kubernetes and the DCGM exporter mostly kept
them word for word when names changed (the unit in brackets apart), vLLM and the inference gateway changed a word or
two, HAMi and the API server's flow control wrote new ones; node_exporter's netstat and many bridges print the same
sentence for every name. So each drawn release has a habit of its own, and siblings share most of their words.
"""

from __future__ import annotations

import hashlib
import random
import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: What a text says besides the words of the name; which of them belongs to a word of the name is drawn by hash.
_OTHER = """
across active all amount attempts average batch board bound broken calls collected completed component configured
controller core device driver each encountered engine entries events finished handled host instance internal items last
link long measured memory module number observed operation performed period phase pipeline pool processed queue rate
received recent request resource response result sample scheduled seen server service session share since size spent
stage started state step system target taken task thread time total transfer unit used value waiting whole work
""".split()  # noqa: SIM905 (a list of quoted words is no better to read)
_OPENINGS = ("Number of", "Total number of", "Current", "Histogram of", "Value of", "Cumulative", "The", "")
_UNITS = {1e-3: ("ms", "s"), 1e3: ("s", "ms"), 1e6: ("MHz", "Hz"), 1048576.0: ("MiB", "bytes"), 0.01: ("%", "0 to 1"), 1e-6: ("us", "s")}


class Habit:
    """How the texts of one exporter are written, and how a release treats them."""

    def __init__(self, dice: random.Random, salt: str) -> None:
        self.dice, self.salt = dice, salt
        #: one text in ten says nothing that tells names apart
        self.generic = dice.random() < 0.1
        self.empty = dice.random() < 0.07
        #: share of texts that a rename leaves alone
        self.kept = dice.choice((1.0, 0.95, 0.8, 0.6, 0.2))

    def text(self, name: str, factor: float = 1.0) -> str:
        """The text of a name before the release."""
        if self.empty:
            return ""
        if self.generic:
            return "Metric of the collector."
        words = [w.lower() for w in _WORD.findall(name)][1:] or [name.lower()]
        said = []
        for word in words:
            number = self._hash(word)
            if number % 3:  # two words in three are named, one is only described
                said.append(word)
            if number % 2:
                said.append(_OTHER[number // 7 % len(_OTHER)])
        if self._hash(name) % 2:
            said.append(_OTHER[self._hash(name) // 5 % len(_OTHER)])
        opening = _OPENINGS[self._hash(name) // 11 % len(_OPENINGS)]
        unit = _UNITS.get(factor)
        return " ".join(filter(None, (opening, *said))).strip().capitalize() + (f" (in {unit[0]})" if unit else "") + "."

    def later(self, old_text: str, new: str, factor: float) -> str:
        """The text of a renamed metric after the release: kept, changed here and there, or written anew."""
        if self.empty or self.generic:
            return old_text
        unit = _UNITS.get(factor)
        if self.dice.random() < self.kept:
            return old_text.replace(f"(in {unit[0]})", f"(in {unit[1]})") if unit else old_text
        if self.dice.random() < 0.5:
            words = [self.dice.choice(_OTHER) if self.dice.random() < 0.3 else w for w in old_text.rstrip(".").split()]
            return " ".join(words) + "."
        return self.text(new)

    def _hash(self, text: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.salt}/{text}".encode()).digest()[:4], "big")
