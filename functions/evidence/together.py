"""Several questions in one request, so that their number stays small. Where that is too much at once, in two.

Each question keeps an answer of its own: a part that fails again costs only what rests on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.telemetry import Row
from functions.evidence import meter
from functions.evidence.questions import PART, Question
from functions.evidence.request import carried

Rows = Fact[tuple[Row, ...]]
#: What smaller questions may mend.
_TOO_MUCH = (Why.TRUNCATED, Why.TIMED_OUT)


async def together(ask: Callable[[Question], Awaitable[Rows]], questions: Sequence[Question]) -> list[Rows]:
    """The answers, in the order of the questions."""
    if len(questions) < 2:
        return [await in_parts(ask, question) for question in questions]
    answer = await ask(_joined(questions))
    if not isinstance(answer, Missing):
        return [carried(answer, rows) for rows in _split(answer.value, questions)]
    if answer.why not in _TOO_MUCH or not meter.spare(2):
        return [answer for _ in questions]
    half = len(questions) // 2
    return [*await together(ask, questions[:half]), *await together(ask, questions[half:])]


async def in_parts(ask: Callable[[Question], Awaitable[Rows]], question: Question) -> Rows:
    """The answer to one question; a union that is too much at once is asked in two."""
    answer = await ask(question)
    half = len(question.parts) // 2
    if not isinstance(answer, Missing) or answer.why not in _TOO_MUCH or not half or not meter.spare(2):
        return answer
    answers = [await ask(Question.union(question.id, parts)) for parts in (question.parts[:half], question.parts[half:])]
    first, second = answers
    if isinstance(first, Missing) or isinstance(second, Missing):
        return first if isinstance(first, Missing) else second
    return Known((*first.value, *second.value), first.at, first.source, tuple(dict.fromkeys((*first.warnings, *second.warnings))))


def _joined(questions: Sequence[Question]) -> Question:
    parts = [
        replace(part, id=f"{number}:{part.id if question.parts else ''}")
        for number, question in enumerate(questions)
        for part in question.parts or (question,)
    ]
    return Question.union("+".join(question.id for question in questions), parts)


def _split(rows: Sequence[Row], questions: Sequence[Question]) -> list[tuple[Row, ...]]:
    found: list[list[Row]] = [[] for _ in questions]
    for row in rows:
        number, _, part = row.labels[PART].partition(":")
        labels = {**row.labels, PART: part}
        if not questions[int(number)].parts:
            del labels[PART]
        found[int(number)].append(Row(labels, row.value))
    return [tuple(held) for held in found]
