"""What must not leave: credentials by their shape, and what the policy masks. Applied to every text of every message. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "‹masked›"

#: Shapes that are credentials wherever they stand. `keep` is left in front of the mask.
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)",  # user:password@ in a URL
        r"(?P<keep>(?i:\b(?:bearer|basic)\s+))[A-Za-z0-9._~+/-]{12,}=*",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JSON Web Token
        r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}",
        r"\bgh[oprsu]_[A-Za-z0-9]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bhf_[A-Za-z0-9]{20,}",
        r"\bhttps://hooks\.slack\.com/services/[^\s\"'<>|)]+",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"(?P<keep>(?i:\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)\s*[=:]\s*[\"']?))[^\s\"',;&}]{4,}",
    )
)


class Redactor:
    """Masks texts, and the texts in nested JSON. `masks` are the policy's expressions; one that is broken raises ValueError."""

    def __init__(self, masks: Sequence[str] = ()) -> None:
        try:
            self._masks = tuple(re.compile(mask) for mask in masks)
        except re.error as error:
            raise ValueError(f"masks: not a regular expression: {error}") from None

    def text(self, text: str) -> str:
        for secret in _SECRETS:
            text = secret.sub(lambda m: (m.groupdict().get("keep") or "") + MASK, text)
        for mask in self._masks:
            text = mask.sub(lambda m: MASK if m.group() else "", text)
        return text

    def json(self, value: Any) -> Any:
        """The same value with every text in it masked; keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.json(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(inner) for inner in value]
        return value
