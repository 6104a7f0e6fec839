"""The inference of successors, with the catalogue off: its parts alone, and small jobs in which it must be right or silent."""

from __future__ import annotations

from itertools import combinations
from math import prod

import pytest

from functions.checks.metric_rename.families import companion, families
from functions.checks.metric_rename.inference import setting
from functions.checks.metric_rename.matching import assign, marginals
from functions.checks.metric_rename.patterns import NO_RULES, contrast, contrasts, rules
from functions.checks.metric_rename.rivals import rivals
from functions.checks.metric_rename.successors import How, State, Succession
from functions.checks.metric_rename.texts import Texts
from functions.checks.metric_rename.twins import twins
from functions.contract.telemetry import MetricSchema, PartialLoss
from functions.knowledge.renames_words import load_words
from tests.functions.checks.rename_worlds import NO_CATALOGUE, decide, histogram, known, metric, outcome, target

WORDS = load_words()
KEPT = [
    metric("app_workers", 8.0),
    metric("app_queue_depth", 3.0),
    *(metric(f"process_{n}_total", 1000.0 * i, type="counter") for i, n in enumerate(("cpu_seconds", "reads", "writes", "faults"), 1)),
]


def renames(found: Succession) -> dict[str, str]:
    return {loss.was.name: loss.renamed_to for loss in found.losses if loss.state is State.RENAMED}


def infer(before: list[MetricSchema], after: list[MetricSchema]) -> dict[str, str]:
    return renames(decide([*before, *KEPT], [*after, *KEPT], policy=NO_CATALOGUE))


# ---------------------------------------------------------------------------------------------------------- matching


def exact(odds: dict[str, dict[str, float]]) -> dict[tuple[str, str], float]:
    """The marginals by listing every set of pairs without a common name."""
    pairs = [(old, new) for old, row in odds.items() for new in row]
    total, held = 0.0, dict.fromkeys(pairs, 0.0)
    for size in range(len(pairs) + 1):
        for chosen in combinations(pairs, size):
            if len({o for o, _ in chosen}) == len({n for _, n in chosen}) == size:
                weight = prod(odds[o][n] for o, n in chosen)
                total += weight
                for pair in chosen:
                    held[pair] += weight
    return {pair: weight / total for pair, weight in held.items()}


@pytest.mark.parametrize(
    ("odds", "within"),
    [
        ({"a": {"x": 4.0}}, 1e-3),
        ({"a": {"x": 4.0, "y": 4.0}}, 1e-3),
        ({"a": {"x": 50.0, "y": 2.0}, "b": {"y": 9.0, "z": 0.1}}, 1e-3),
        ({"a": {"x": 5.0, "y": 2.0}, "b": {"x": 3.0, "y": 9.0}}, 0.05),
    ],
)
def test_the_probability_of_a_pair_counts_every_other_use_of_its_names(odds: dict[str, dict[str, float]], within: float) -> None:
    found = marginals(odds)
    for (old, new), value in exact(odds).items():
        assert found[old][new] == pytest.approx(value, abs=within)


def test_a_sure_pair_leaves_its_rival_without_a_successor() -> None:
    found = marginals({"a": {"x": 1e4}, "b": {"x": 5.0}})
    assert found["a"]["x"] > 0.99
    assert found["b"]["x"] < 0.01


def test_two_equally_good_candidates_share_what_one_would_have_had() -> None:
    row = marginals({"a": {"x": 1e4, "y": 1e4}})["a"]
    assert row["x"] == pytest.approx(0.5, abs=0.01) == row["y"]


def test_no_new_name_is_given_away_twice() -> None:
    found = assign({"a": {"x": 0.6, "y": 0.3}, "b": {"x": 0.4, "y": 0.2}})
    assert found == {"a": ("x", 0.6), "b": ("y", 0.2)}


# ---------------------------------------------------------------------------------------------------------- patterns


def test_what_was_done_to_the_plain_names_speaks_for_the_others_too() -> None:
    read = WORDS.read
    learned = rules([(read(f"old_{n}"), read(f"new_{n}_ratio")) for n in ("temp", "power", "clock", "fan", "load", "heat")])
    assert learned.explains(read("old_draw"), read("new_draw_ratio")) == 1.0
    assert learned.explains(read("old_draw"), read("old_draw_limit")) < 0
    assert NO_RULES.explains(read("old_draw"), read("new_draw_ratio")) == 0.0


def test_a_pair_is_no_evidence_for_itself() -> None:
    read = WORDS.read
    learned = rules([(read("a_temp"), read("b_temp")), (read("x_power"), read("x_power_limit"))])
    assert learned.explains(read("a_temp"), read("b_temp")) == 0.0


def test_words_that_tell_living_metrics_apart_are_no_other_words_for_one_another() -> None:
    names = [WORDS.read(n) for n in ("net_sent_packets", "net_lost_packets", "net_sent_frames")]
    apart = contrasts([names])
    assert contrast(WORDS.read("link_sent_cells"), WORDS.read("link_lost_cells"), apart) == -1.0
    assert contrast(WORDS.read("link_sent_cells"), WORDS.read("link_shipped_cells"), apart) == 0.0


# ------------------------------------------------------------------------------------------------------------- texts


def families_of(*metrics: MetricSchema) -> list:  # type: ignore[type-arg]
    return list(families(metrics)["job"].values())


def test_a_text_says_the_same_in_another_unit() -> None:
    a, b = "Used framebuffer (in MiB).", "Used framebuffer (in bytes)."
    texts = Texts(families_of(metric("m_a", help=a), metric("m_b", help=b), metric("m_c", help="Clock of the core (in MHz).")), WORDS)
    assert texts.likeness(a, b) == 1.0
    assert texts.likeness(a, "Clock of the core (in MHz).") == 0.0


def test_a_rare_word_in_common_says_more_than_a_common_one() -> None:
    held = [f"Requests {w} by the gateway" for w in ("served", "dropped", "queued", "retried")]
    texts = Texts(families_of(*(metric(f"m_{i}", help=text) for i, text in enumerate(held))), WORDS)
    assert texts.likeness("Gateway requests", held[0]) < texts.likeness("served dropped", "served dropped queued")


# ------------------------------------------------------------------------------------------------------------ rivals


@pytest.mark.parametrize(("size", "each"), [(20, 20), (100, 30), (300, 20), (900, 10)])
def test_a_job_that_lost_hundreds_of_names_looks_at_fewer_candidates_for_each(size: int, each: int) -> None:
    words = [f"{''.join(chr(97 + n // 26**place % 26) for place in range(3))}cache" for n in range(size)]
    before, after = (families([metric(f"{prefix}_{w}_size", 2.0) for w in words])["job"] for prefix in ("app", "engine"))
    common = setting(before, after, WORDS)
    read = {name: WORDS.read(name) for name in (*before, *after)}
    found = rivals(list(before.values()), list(after.values()), read, common)
    assert {len(held) for _, held in found} == {each}
    assert all(was.name.replace("app", "engine") in {now.name for now in held} for was, held in found)


# ------------------------------------------------------------------------------------------------------------- twins


def pair(name: str, **more: object) -> object:
    return families_of(metric(name, **more))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ({"mean": 53.5}, {"mean": 53.5}, True),
        ({"mean": 2.5173}, {"mean": 2517.3}, True),
        ({"mean": 2.5}, {"mean": 2500.0}, False),
        ({"mean": 53.5}, {"mean": 53.6}, False),
        ({"mean": 53.5}, {"mean": 53.5, "series": 5}, False),
        ({"mean": 0.0}, {"mean": 0.0}, False),
    ],
)
def test_names_that_stood_side_by_side_were_equal_in_every_figure(old: dict[str, float], new: dict[str, float], equal: bool) -> None:
    before = pair("app_core_temp_new", **new)
    assert (
        twins([pair("app_core_temp_old", **old)], [(before, before)], Texts((), WORDS)) == {"app_core_temp_old": {"app_core_temp_new": 1.0}}
    ) is equal  # type: ignore[list-item]


def test_round_numbers_that_agree_make_no_twins_of_strangers() -> None:
    before = pair("app_workers", mean=8.0)
    assert twins([pair("app_cache_entries", mean=8.0), pair("app_heap_pages", mean=800.0)], [(before, before)], Texts((), WORDS)) == {}  # type: ignore[list-item]


def test_a_successor_may_have_been_there_beside_the_old_name() -> None:
    old, new = metric("app_cache_use_percent", 41.7), metric("app_kv_cache_use_percent", 41.7)
    found = decide([old, new, *KEPT], [metric("app_kv_cache_use_percent", 38.0), *KEPT], policy=NO_CATALOGUE)
    loss = outcome(found, "app_cache_use_percent")
    assert (loss.renamed_to, loss.how) == ("app_kv_cache_use_percent", How.INFERRED)
    assert "both were exposed before, with the same values" in loss.signals


def test_an_idle_name_was_the_twin_of_one_that_reads_the_same() -> None:
    before = pair("app_body_size_bytes", mean=0.0)
    found = twins([pair("app_body_sizes", mean=0.0)], [(before, before)], Texts((), WORDS))  # type: ignore[list-item]
    assert found == {"app_body_sizes": {"app_body_size_bytes": 1.0}}


def test_round_numbers_count_in_the_unit_that_both_names_state() -> None:
    before = pair("app_wait_seconds", mean=2e-6)
    assert twins([pair("app_wait_microseconds", mean=2.0)], [(before, before)], Texts((), WORDS)) == {
        "app_wait_microseconds": {"app_wait_seconds": 1.0}
    }
    elsewhere = pair("app_wait_seconds", mean=2e-3)
    assert twins([pair("app_wait_microseconds", mean=2.0)], [(elsewhere, elsewhere)], Texts((), WORDS)) == {}


def test_a_twin_is_found_among_many_and_a_stranger_that_shows_the_same_takes_it_away() -> None:
    held = [pair(f"app_{word}_bytes", mean=1000.0 + at + 0.12345) for at, word in enumerate(("heap", "page", "disk", "swap"))]
    old = pair("app_disk_kilobytes", mean=1.00212345)
    kept = [(before, before) for before in held]
    assert twins([old], kept, Texts((), WORDS)) == {"app_disk_kilobytes": {"app_disk_bytes": 1.0}}  # type: ignore[list-item]
    stranger = pair("app_queue", mean=1.00212345)
    assert twins([old], [*kept, (stranger, stranger)], Texts((), WORDS)) == {"app_disk_kilobytes": {"app_disk_bytes": 1.0}}  # type: ignore[list-item]
    bare = pair("app_disk_use", mean=1002.12345)
    taken = [*kept, (pair("app_queue", mean=1002.12345),) * 2]
    assert twins([bare], kept, Texts((), WORDS)) == {"app_disk_use": {"app_disk_bytes": 1.0}}  # type: ignore[list-item]
    assert twins([bare], taken, Texts((), WORDS)) == {}  # type: ignore[list-item]


def test_of_many_with_the_same_round_number_the_twin_reads_the_same() -> None:
    held = [pair(name, mean=32.0) for name in ("app_pod_current", "app_queue_limit", "app_pod_maximum")]
    found = twins([pair("app_current_pods", mean=32.0)], [(before, before) for before in held], Texts((), WORDS))
    assert found == {"app_current_pods": {"app_pod_current": 1.0}}


def test_a_sibling_that_stays_is_no_successor_of_the_one_that_goes() -> None:
    before = [metric("app_rx_packets", 500.0), metric("app_tx_packets", 730.0)]
    assert infer(before, [metric("app_tx_packets", 731.0)]) == {}


# ------------------------------------------------------------------------------------------------------ what is found


def test_the_same_text_finds_a_successor_of_quite_another_name() -> None:
    old = metric("app_frobs", 41.0, help="Widgets waiting for the press.", type="gauge")
    new = metric("app_press_backlog_size", 43.0, help="Widgets waiting for the press.", type="gauge")
    other = metric("app_press_speed", 7.0, help="Revolutions of the drum.", type="gauge")
    found = decide([old, *KEPT], [new, other, *KEPT], policy=NO_CATALOGUE)
    assert outcome(found, "app_frobs").renamed_to == "app_press_backlog_size"
    assert "the HELP text is the same, and no other name has it" in outcome(found, "app_frobs").signals


def test_a_text_that_everything_has_finds_nothing() -> None:
    text = "Statistic of the kernel."
    old = metric("app_frobs", 41.0, help=text)
    new = [metric(f"app_{n}", 9000.0, help=text) for n in ("backlog", "speed", "heat")]
    assert infer([old], new) == {}


def test_a_prefix_that_everything_changed_carries_the_far_name_along() -> None:
    names = ["request_total", "queue_time_seconds", "cache_usage", "tokens_total", "batch_size", "preemptions_total", "swaps_total"]
    before = [metric(f"engine:{n}", 10.0 + 7 * i) for i, n in enumerate(names)]
    after = [metric(f"srv_core_{n}", 10.2 + 7 * i) for i, n in enumerate(names)]
    assert infer(before, after) == {f"engine:{n}": f"srv_core_{n}" for n in names}


def test_a_dropped_name_steals_no_candidate() -> None:
    before = [metric("app_cache_hits_total", 900.0, type="counter"), metric("app_cache_ratio_of_hits", 0.4, type="gauge")]
    after = [metric("app_cache_hit_total", 930.0, type="counter")]
    assert infer(before, after) == {"app_cache_hits_total": "app_cache_hit_total"}


@pytest.mark.parametrize(
    ("old", "was", "new", "now"),
    [
        ("app_memory_used_mib", 2048.0, "app_memory_used_bytes", 2048.0 * 1048576),
        ("app_wait_milliseconds", 250.0, "app_wait_seconds", 0.26),
        ("app_load_percent", 62.0, "app_load_ratio", 0.61),
        ("app_energy_mj", 5.0e6, "app_energy_joules", 5.1e3),
    ],
)
def test_a_unit_that_changed_with_the_name_is_no_obstacle(old: str, was: float, new: str, now: float) -> None:
    assert infer([metric(old, was)], [metric(new, now), metric("app_other_thing", 5.0)]) == {old: new}


def test_a_histogram_is_one_family_and_finds_one_successor() -> None:
    before = histogram("app_request_latency_seconds", 5000, 0.2)
    after = [*histogram("app_request_duration_seconds", 5200, 0.21), metric("app_request_rate", 40.0)]
    assert infer(before, after) == {"app_request_latency_seconds": "app_request_duration_seconds"}


def test_of_two_names_as_near_the_distribution_comes_before_the_single_value() -> None:
    after = [*histogram("app_request_wait_seconds", 5000, 0.2), metric("app_request_stay_seconds", 0.2)]
    found = decide([*histogram("app_request_hold_seconds", 5000, 0.2), *KEPT], [*after, *KEPT], policy=NO_CATALOGUE)
    assert outcome(found, "app_request_hold_seconds").candidates[0][0] == "app_request_wait_seconds"


def test_a_counter_without_a_type_may_have_started_again() -> None:
    before = [metric("app_operations", 50_000.0)]
    assert infer(before, [metric("app_operations_total", 40.0)]) == {"app_operations": "app_operations_total"}


def test_what_only_a_canary_renamed_says_which_targets() -> None:
    name, new = "app_cache_use", "app_cache_usage"
    up = known(*(target(i) for i in "abc"))
    found = decide(
        [metric(name, 50, targets=3, series=6), *KEPT],
        [metric(name, 50, targets=2, series=4), metric(new, 50, targets=1, series=2), *KEPT],
        targets_before=up,
        targets=up,
        partial=(PartialLoss("job", name, ("c",), ("a", "b")),),
        policy=NO_CATALOGUE,
    )
    loss = outcome(found, name)
    assert loss.lost_on == ("c",)
    assert loss.kept_on == ("a", "b")
    assert new in (loss.renamed_to, *(candidate for candidate, _ in loss.candidates))


# -------------------------------------------------------------------------------------------------- what is no rename

COLLECTOR = [metric(f"node_wifi_{n}", 3.0 * i + 5) for i, n in enumerate(("signal_dbm", "bitrate", "stations", "retries"))]
RUNTIME = [metric(n, v) for n, v in (("go_goroutines", 40.0), ("go_threads", 12.0), ("promhttp_requests_total", 7.0))]
NOT_RENAMED = {
    "a collector that was switched off": (COLLECTOR, []),
    "a collector that was switched off and another that was switched on": (
        COLLECTOR,
        [metric(f"node_btrfs_{n}", 1e9 * i + 7) for i, n in enumerate(("device_size_bytes", "used_ratio", "reserved", "commits_total"))],
    ),
    "a scrape path that serves the process alone": (COLLECTOR, RUNTIME),
    "names that metric relabelling drops": ([metric("app_cache_bytes", 4e9), metric("app_cache_entries", 800.0)], []),
    "a lazy counter that another error brought up": (
        [metric("app_decode_errors_total", 3.0, type="counter")],
        [metric("app_upload_timeouts_total", 1.0, type="counter")],
    ),
    "rows that are sparse by nature": (
        [metric("kube_pod_container_status_waiting_reason", 1.0, series=2, spread=0)],
        [metric("kube_job_failed", 1.0, series=1, spread=0)],
    ),
}


@pytest.mark.parametrize("world", NOT_RENAMED.values(), ids=NOT_RENAMED)
def test_what_goes_without_a_successor_is_not_called_renamed(world: tuple[list[MetricSchema], list[MetricSchema]]) -> None:
    assert infer(*world) == {}


@pytest.mark.parametrize(
    ("targets_before", "targets"),
    [
        ((target("a"), target("b")), (target("a"), target("b", up=False))),
        (
            (target("a", namespace="n", pod="web-6cc44d7f9b-8h2xk"), target("b", namespace="n", pod="batch-0")),
            (target("a", namespace="n", pod="web-6cc44d7f9b-8h2xk"),),
        ),
    ],
    ids=["a target that is down", "a workload that was scaled to zero"],
)
def test_what_a_target_took_along_is_not_called_renamed(targets_before: tuple[object, ...], targets: tuple[object, ...]) -> None:
    before = [metric("app_a", targets=2), metric("batch_rows_done", 41.0, targets=1)]
    after = [metric("app_a", targets=1), metric("batch_rows_done_late", 41.0, targets=1)]
    found = decide(before, after, targets_before=known(*targets_before), targets=known(*targets), policy=NO_CATALOGUE)
    assert renames(found) == {}


def test_a_restart_renames_nothing() -> None:
    before = [metric("app_jobs_total", 9000.0, type="counter"), metric("app_errors_total", 12.0, type="counter")]
    after = [metric("app_jobs_total", 4.0, type="counter")]
    assert infer(before, after) == {}


@pytest.mark.parametrize(
    ("name", "known", "only"),
    [
        ("vllm:prompt_tokens_created", {"vllm:prompt_tokens_total"}, True),
        ("request_seconds_created", {"request_seconds"}, True),
        ("pods_created", {"pods"}, True),
        ("pods_created", {"nodes_total"}, False),
        ("vllm:prompt_tokens_total", {"vllm:prompt_tokens_total"}, False),
    ],
)
def test_the_instant_at_which_a_counter_was_created_succeeds_nobody(name: str, known: set[str], only: bool) -> None:
    assert companion(name, known) is only
