"""Labels are counted rightly whatever the sample shows: it decides the cost, never the answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from functions.contract.telemetry import Row
from functions.evidence import plan, presence
from functions.evidence.questions import Question, Series

LABELS = ("pod", "gpu", "le")
ONE = st.fixed_dictionaries(
    {"__name__": st.sampled_from(["a", "b", "c_bucket"]), "job": st.sampled_from(["", "x", "y"])},
    optional={label: st.sampled_from(["1", "2"]) for label in LABELS},
)
FLEET = st.lists(ONE, min_size=1, max_size=25, unique_by=lambda labels: tuple(sorted(labels.items())))


def counts(fleet: list[dict[str, str]], samples: list[Row]) -> dict[tuple[str, str], dict[str, int]]:
    series: list[Series] = [(labels, [(0.0, 1.0)]) for labels in fleet]
    total = {
        (row.labels.get("job", ""), row.labels["__name__"]): int(row.value)
        for row in Question("n", "count", ("job", "__name__"), plan.EVERYTHING).answer(series)
    }
    expected = presence.expected(samples, LABELS)
    rows = presence.question(plan.EVERYTHING, expected).answer(series)
    return presence.counted(expected, rows, total)


@given(FLEET, st.randoms(use_true_random=False))
def test_the_counts_do_not_depend_on_the_sample(fleet: list[dict[str, str]], random: object) -> None:
    brute: dict[tuple[str, str], dict[str, int]] = {}
    for labels in fleet:
        held = brute.setdefault((labels["job"], labels["__name__"]), {})
        for label in LABELS:
            if labels.get(label):
                held[label] = held.get(label, 0) + 1
    sampled: dict[tuple[str, str], Row] = {}
    for labels in sorted(fleet, key=lambda _: random.random()):  # type: ignore[attr-defined]
        sampled[labels["job"], labels["__name__"]] = Row({k: v for k, v in labels.items() if v}, 1.0)
    assert counts(fleet, list(sampled.values())) == brute


def test_a_label_that_is_on_all_or_none_costs_one_look_in_the_index() -> None:
    samples = [
        Row({"__name__": "a", "job": "x", "gpu": "1"}, 1),
        Row({"__name__": "b", "job": "x", "gpu": "1"}, 1),
        Row({"__name__": "c", "job": "y"}, 1),
    ]
    (expected,) = presence.expected(samples, ["gpu"])
    assert [question.selector for question in expected.questions(())] == [
        f'{{{plan.stored(())[0].label}!~"{plan.stored(())[0].value}",job="x",gpu=""}}',
        f'{{{plan.stored(())[0].label}!~"{plan.stored(())[0].value}",job="y",gpu!=""}}',
    ]
