"""Questions in one request keep answers of their own, and what is too much at once is asked in smaller pieces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher
from functions.contract.telemetry import Row
from functions.evidence.meter import metered
from functions.evidence.questions import PART, Question, Series
from functions.evidence.together import in_parts, together

NOW = datetime(2026, 11, 1, 10, tzinfo=UTC)
SERIES: list[Series] = [({"__name__": name, "job": job}, [(0.0, 3.0)]) for name in ("a", "b") for job in ("x", "y")]
A = Question("a", "count", ("job",), (Matcher("__name__", "=", "a"),))
B = Question("b", "", (), (Matcher("__name__", "=", "b"),))
BOTH = Question.union("both", [Question("low", "min", ("job",), A.where), Question("high", "max", ("job",), A.where)])


class Server:
    """Answers, unless there are more parts in a question than it bears."""

    def __init__(self, most: int = 99, why: Why = Why.TRUNCATED, refuses: Callable[[Question], bool] = lambda _question: False) -> None:
        self.most, self.why, self.refuses = most, why, refuses
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> Fact[tuple[Row, ...]]:
        self.asked.append(question.id)
        if max(1, len(question.parts)) > self.most or self.refuses(question):
            return Missing(self.why, "too much")
        return Known(question.answer(SERIES), NOW, question.shown)


def rows(fact: Fact[tuple[Row, ...]]) -> list[tuple[dict[str, str], float]]:
    assert isinstance(fact, Known), fact
    return [(dict(row.labels), row.value) for row in fact.value]


async def test_answers_asked_together_are_those_of_each_alone() -> None:
    server = Server()
    answers = await together(server, [A, BOTH, B])
    assert server.asked == ["a+both+b"]
    assert [rows(answer) for answer in answers] == [[(dict(r.labels), r.value) for r in q.answer(SERIES)] for q in (A, BOTH, B)]
    assert PART not in rows(answers[0])[0][0]
    assert {labels[PART] for labels, _ in rows(answers[1])} == {"low", "high"}


async def test_too_much_at_once_is_asked_in_two() -> None:
    server = Server(most=3)
    with metered(spare=2):
        answers = await together(server, [A, BOTH, B])
    assert server.asked == ["a+both+b", "a", "both+b"]
    assert all(isinstance(answer, Known) for answer in answers)


async def test_a_question_that_fails_in_its_half_leaves_the_other() -> None:
    server = Server(refuses=lambda question: "b" in question.id.split("+"))
    with metered(spare=2):
        first, second = await together(server, [A, B])
    assert isinstance(first, Known)
    assert isinstance(second, Missing)


async def test_where_nothing_is_left_to_spend_all_of_it_is_missing() -> None:
    server = Server(most=1)
    with metered(spare=1):
        answers = await together(server, [A, B])
    assert server.asked == ["a+b"]
    assert all(isinstance(answer, Missing) for answer in answers)


async def test_a_server_that_is_away_is_not_asked_in_pieces() -> None:
    server = Server(most=1, why=Why.UNREACHABLE)
    await together(server, [A, B])
    await in_parts(server, BOTH)
    assert server.asked == ["a+b", "both"]


async def test_a_union_that_is_too_much_is_put_together_of_its_halves() -> None:
    whole, halved = Server(), Server(most=1)
    assert rows(await in_parts(halved, BOTH)) == rows(await whole(BOTH))
    assert halved.asked == ["both", "both", "both"]


async def test_half_an_answer_is_none() -> None:
    server = Server(refuses=lambda question: any(part.id == "high" for part in question.parts))
    assert isinstance(await in_parts(server, BOTH), Missing)
