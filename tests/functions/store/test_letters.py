"""Undelivered events are kept as they came, once, within bounds, and given out for a replay once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from functions.store import Letter, Store
from functions.store import letters as module

NOW = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)
BYTES = bytes(range(256))
LETTER = Letter("event-1", NOW, "dev.telltale.audit.due cluster", "503: away", "http://audit.telltale.svc", {"ce-id": "1"}, BYTES)


async def test_a_letter_comes_back_byte_for_byte_and_is_kept_once(store: Store) -> None:
    assert await store.letters.keep(LETTER)
    assert not await store.letters.keep(replace(LETTER, at=NOW + timedelta(seconds=5)))
    assert await store.letters.list() == (LETTER,)
    assert (await store.notes.counters())["dead_events"] == 1
    assert (await store.letters.waiting()) == {"dead_events": 1}


async def test_beyond_the_most_that_are_kept_the_oldest_go_and_are_counted(store: Store) -> None:
    for number in range(module.MOST + 3):
        await store.letters.keep(replace(LETTER, id=f"event-{number}", at=NOW + timedelta(seconds=number)))
    kept = await store.letters.list(module.MOST + 10)
    assert len(kept) == module.MOST
    assert (kept[0].id, kept[-1].id) == (f"event-{module.MOST + 2}", "event-3")
    assert await store.letters.get("event-2") is None
    assert (await store.notes.counters())["dead_events_let_go"] == 3


async def test_a_wanted_letter_is_given_out_once_and_stays_until_it_is_dropped(store: Store) -> None:
    await store.letters.keep(LETTER)
    await store.letters.want("event-1", NOW)
    await store.letters.want("event-gone", NOW)
    assert await store.letters.wanted() == (LETTER,)
    assert await store.letters.wanted() == ()
    await store.letters.explain(LETTER, "the replay was refused")
    assert [x.why for x in await store.letters.list()] == ["the replay was refused"]
    assert await store.letters.drop("event-1")
    assert not await store.letters.drop("event-1")
    await store.letters.explain(LETTER, "must not bring it back")
    assert await store.letters.list() == ()


async def test_letters_of_long_ago_are_forgotten_with_the_audits(store: Store) -> None:
    await store.letters.keep(LETTER)
    await store.letters.keep(replace(LETTER, id="event-2", at=NOW + timedelta(days=2)))
    await store.purge(NOW + timedelta(days=3), resolved_for=timedelta(days=2), audits_for=timedelta(days=2))
    assert [x.id for x in await store.letters.list()] == ["event-2"]
