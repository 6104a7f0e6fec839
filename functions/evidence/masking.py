"""Personal and secret text, made unreadable before it is written down, and still telling that it was there.

A masked value keeps its kind and stays different from others: an e-mail address becomes another address, a token
another token of the same beginning. So series don't fall together, and a check that looks for such content still
finds it. The policy's `masks` are replaced without a shape.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.[A-Za-z]{2,24}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")
_TOKEN = re.compile(r"\b(sk-(?:proj-|ant-)?|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|hf_|AKIA|ASIA|nvapi-)[A-Za-z0-9_-]{10,}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")
_ASSIGNED = re.compile(r"(?i)((?:password|passwd|secret|token|api[_-]?key)\s*[=:]\s*)([^\s\"',;&]{4,})")
_USERINFO = re.compile(r"(://)[^/@\s:]+:[^/@\s]+@")


class Masks:
    """The built-in patterns and those of a policy."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Raises re.error for a pattern that can't be read."""
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def text(self, text: str) -> str:
        """The text with everything personal or secret in it replaced."""
        text = _USERINFO.sub(r"\1masked:masked@", text)
        text = _JWT.sub(lambda found: f"eyJ{_digest(found[0])}.{_digest(found[0], 'b')}.masked", text)
        text = _TOKEN.sub(lambda found: found[1] + (_digest(found[0]) * 16)[: max(10, len(found[0]) - len(found[1]))], text)
        text = _BEARER.sub(lambda found: f"{found[1]}{found[2]}masked{_digest(found[0])}", text)
        text = _ASSIGNED.sub(lambda found: f"{found[1]}masked{_digest(found[2])}", text)
        text = _EMAIL.sub(lambda found: f"{_digest(found[0])}@masked.invalid", text)
        for pattern in self._patterns:
            text = pattern.sub(lambda found: f"masked-{_digest(found[0])}" if found[0] else "", text)
        return text

    def tree(self, value: Any) -> Any:
        """A decoded JSON value with every text in it masked; keys stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.tree(held) for key, held in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(held) for held in value]
        return value


def _digest(text: str, salt: str = "") -> str:
    return hashlib.sha256((salt + text).encode()).hexdigest()[:12]
