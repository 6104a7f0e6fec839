"""`telltale replay FILE…`: recorded signals through the triggers; prints the audit requests, one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from functions.contract.signals import Signal
from functions.envelope import NotAnEvent
from triggers import alertmanager
from triggers.replay import Replay
from triggers.usage import UsageError


def run(options: argparse.Namespace) -> int:
    """Replay every file in order, as one story."""
    try:
        signals = asyncio.run(_replay([Path(f) for f in options.files]))
    except NotAnEvent as error:
        raise UsageError(str(error)) from None
    pending: dict[str, list[Signal]] = {}
    for signal in signals:
        if signal.audit:
            pending.setdefault(str(signal.scope), []).append(signal)
    for scope, group in pending.items():
        last = max(group, key=lambda s: (s.trigger.gravity, s.at))
        baseline = min((s.baseline for s in group if s.baseline), default=None)
        request = {
            "scope": scope,
            "trigger": last.trigger.as_dict(),
            "baseline": baseline.isoformat() if baseline else None,
            "urgent": any(s.urgent for s in group),
            "signals": [s.as_dict() for s in group],
        }
        print(orjson.dumps(request).decode())
    return 0


async def _replay(paths: list[Path]) -> list[Signal]:
    replay = Replay()
    found: dict[str, Signal] = {}
    for path in paths:
        for number, document in _documents(path):
            try:
                signals = await _one(replay, document)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UsageError(f"{path}:{number}: not a signal that is known ({type(error).__name__}: {error})") from None
            found |= {s.key: s for s in signals}
    return list(found.values())


async def _one(replay: Replay, document: Any) -> list[Signal]:
    if not isinstance(document, dict):
        raise TypeError("not a JSON object")
    if "alerts" in document and "version" in document:
        return alertmanager.observe(alertmanager.read(orjson.dumps(document)), datetime.now(UTC))
    if "specversion" in document:
        return await replay.cloudevent(str(document["type"]), document.get("data"))
    at = datetime.fromisoformat(document["at"]) if isinstance(document.get("at"), str) else None
    if isinstance(document.get("object"), dict):
        return await replay.change(str(document["type"]), document["object"], at)
    if document.get("kind") == "List" or str(document.get("kind", "")).endswith("List"):
        return [s for item in document["items"] for s in await replay.change("ADDED", item)]
    if "kind" in document and "metadata" in document:
        return await replay.change("ADDED", document)
    raise ValueError("neither a CloudEvent, a watch event, an object nor an Alertmanager body")


def _documents(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        yield 1, orjson.loads(text)
        return
    except orjson.JSONDecodeError as whole:
        lines = text.splitlines()
        if len(lines) < 2:
            raise UsageError(f"{path}: not JSON: {whole}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}:{number}: not JSON: {error}") from None
