"""A bundle is read as docs/bundle.md says, and nothing that may be in it ends in a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Selector
from functions.contract.signals import TriggerKind
from functions.contract.telemetry import Row
from functions.evidence.bundle.files import BundleError
from functions.evidence.bundle.reading import Bundle
from functions.evidence.questions import Question
from functions.evidence.sources import Metadata
from functions.evidence.stored import stored_labels
from tests.support.exporters import exporters
from tests.support.prometheus import BINARIES, job, prometheus

CASES = sorted(p.parent for p in (Path(__file__).parents[2] / "cases").glob("*/expect.yaml"))
NOW = datetime(2026, 11, 1, 10, 30, tzinfo=UTC)
INSTANTS = "baseline: 2026-11-01T10:00:00Z\ncurrent: 2026-11-01T10:30:00Z\n"
TARGET = '# TARGET job="dcgm" instance="10.0.0.1:9400" pod="dcgm-x" node="n-1"'
POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: ml, labels: {app: chat}}, spec: {nodeName: n-1}}\n"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def metrics(root: Path, after: str, before: str | None = None, about: str = INSTANTS, **more: str) -> Bundle:
    files: dict[str, str | bytes] = {"bundle.yaml": about, "metrics/after/a.prom": after}
    if before is not None:
        files["metrics/before/a.prom"] = before
    return Bundle.read(write(root, files | {k.replace("__", "/") + ".json": v for k, v in more.items()}))


async def series(bundle: Bundle, at: datetime | None = None, **where: str) -> dict[str, float]:
    """Selected series, printed without job, instance and node."""
    question = Question("q", where=tuple(Matcher(k.replace("name_", "__name__"), "=~", v) for k, v in where.items()))
    answer = await bundle.metrics.ask(question, at or bundle.current)
    assert isinstance(answer, Known), answer
    return {_shown(r): r.value for r in answer.value}


def _shown(row: Row) -> str:
    labels = {k: v for k, v in sorted(row.labels.items()) if k not in ("__name__", "job", "instance", "node")}
    return row.labels.get("__name__", "") + ("{" + ",".join(f"{k}={v}" for k, v in labels.items()) + "}" if labels else "")


def known(fact: Fact[Any]) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def missing(fact: Fact[Any]) -> Missing:
    assert isinstance(fact, Missing), fact
    return fact


# ----------------------------------------------------------------------------------------------------- bundle.yaml


def test_everything_in_bundle_yaml_has_a_default(tmp_path: Path) -> None:
    bundle = Bundle.read(write(tmp_path, {"metrics/after/a.prom": f"{TARGET}\na 1\n"}), now=NOW)
    assert (bundle.cluster, bundle.trigger.kind, bundle.baseline, bundle.current) == ("bundle", TriggerKind.MANUAL, None, NOW)
    assert bundle.jobs == {"dcgm"}
    assert bundle.policy is None


def test_what_bundle_yaml_says_is_taken(tmp_path: Path) -> None:
    about = INSTANTS + (
        "cluster: lab\njobs: [dcgm, vllm]\npolicy: {signals: {required: [x]}}\n"
        "trigger: {kind: rollout, phase: complete, subject: {kind: DaemonSet, namespace: a, name: b}}\n"
    )
    bundle = metrics(tmp_path, f"{TARGET}\na 1\n", f"{TARGET}\na 1\n", about)
    assert (bundle.cluster, bundle.jobs, bundle.policy) == ("lab", {"dcgm", "vllm"}, {"signals": {"required": ["x"]}})
    assert str(bundle.trigger.subject.scope if bundle.trigger.subject else "") == "DaemonSet/a/b"
    assert bundle.baseline == NOW - timedelta(minutes=30)


def test_without_a_stated_instant_the_files_own_times_count(tmp_path: Path) -> None:
    later = (NOW - timedelta(days=9)).timestamp()
    bundle = metrics(tmp_path, f'up{{job="a",instance="b"}} 1 {int(later * 1000)}\n', "a 1\n", about="")
    assert bundle.current.timestamp() == later
    assert bundle.baseline == bundle.current - timedelta(hours=1)


# ---------------------------------------------------------------------------------------------------- stored view


async def test_a_section_is_stored_under_its_targets_labels(tmp_path: Path) -> None:
    bundle = metrics(
        tmp_path,
        f'{TARGET} duration="0.25"\na{{pod="chat-1",x="1"}} 1\nb{{pod=""}} 2\n'
        '# TARGET job="dcgm" instance="10.0.0.2:9400" pod="dcgm-y" honor_labels="true"\na{pod="chat-2"} 3\nb{pod=""} 4\nc 5\n',
    )
    assert await series(bundle, job="dcgm") == {
        "a{exported_pod=chat-1,pod=dcgm-x,x=1}": 1,
        "b{pod=dcgm-x}": 2,
        "a{pod=chat-2}": 3,
        "b": 4,
        "c{pod=dcgm-y}": 5,
        "up{pod=dcgm-x}": 1,
        "up{pod=dcgm-y}": 1,
        "scrape_samples_scraped{pod=dcgm-x}": 2,
        "scrape_samples_scraped{pod=dcgm-y}": 3,
        "scrape_duration_seconds{pod=dcgm-x}": 0.25,
    }


async def test_a_file_without_targets_is_the_stored_view(tmp_path: Path) -> None:
    stamp = int((NOW - timedelta(minutes=1)).timestamp() * 1000)
    old = stamp - 600_000
    bundle = metrics(
        tmp_path, f'a{{job="x",instance="i",pod="p",e=""}} 1 {stamp}\nold{{job="x",instance="i"}} 1 {old}\nup{{job="y",instance="j"}} 0\n'
    )
    assert await series(bundle, name_=".+") == {"a{pod=p}": 1, "up": 0}
    targets = {(t.job, t.instance): t.up for t in known(await bundle.metrics.targets(NOW))}
    assert targets == {("x", "i"): True, ("y", "j"): False}
    assert missing(await bundle.metrics.bodies(NOW)).why is Why.NOT_CONFIGURED


async def test_a_body_that_a_server_rejects_is_a_failed_scrape(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"{TARGET}\na 1\nb ERROR - FAILED\nc 2\n")
    assert await series(bundle, job=".+") == {"up{pod=dcgm-x}": 0, "scrape_samples_scraped{pod=dcgm-x}": 1}
    (target,) = known(await bundle.metrics.targets(NOW))
    assert (target.up, target.error[:24]) == (False, "metrics/after/a.prom:3: ")
    (body,) = known(await bundle.metrics.bodies(NOW))
    assert (body.samples, body.bad.number, body.bad.text, body.origin) == (2, 2, "b ERROR - FAILED", "metrics/after/a.prom:2")


async def test_a_stated_failure_stores_nothing_and_says_why(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f'{TARGET} up="0" error="connection refused"\n')
    assert await series(bundle, name_="up|a") == {"up{pod=dcgm-x}": 0}
    assert known(await bundle.metrics.targets(NOW))[0].error == "connection refused"


async def test_a_series_that_the_newest_scrape_lacks_is_gone_and_stays_in_the_range(tmp_path: Path) -> None:
    def scraped(second: int, body: str) -> str:
        return f'{TARGET} scraped_at="2026-11-01T10:29:{second:02}Z"\n{body}'

    bundle = metrics(tmp_path, scraped(30, "a 3\nb 9\n") + scraped(0, "a 1\nb 7\nc 5\n") + scraped(15, "a 1\nb 8\n"))
    assert await series(bundle, name_="a|b|c") == {"a{pod=dcgm-x}": 3, "b{pod=dcgm-x}": 9}
    counted = await bundle.metrics.ask(Question("q", "max", over=("count_over_time", 120), names=("a", "c")), NOW)
    assert sorted(r.value for r in known(counted)) == [3]
    changed = await bundle.metrics.ask(Question("q", "max", over=("changes", 120), names=("a",)), NOW)
    assert [r.value for r in known(changed)] == [1]


async def test_after_a_failed_scrape_nothing_of_the_target_is_left(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f'{TARGET} scraped_at="2026-11-01T10:29:00Z"\na 1\n{TARGET} scraped_at="2026-11-01T10:29:30Z" up="0"\n')
    assert await series(bundle, name_="a|up") == {"up{pod=dcgm-x}": 0}


async def test_a_scrape_older_than_the_look_back_is_not_seen(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f'{TARGET} scraped_at="2026-11-01T10:24:00Z"\na 1\n')
    assert await series(bundle, name_=".+") == {}


async def test_the_two_windows_are_kept_apart(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"{TARGET}\na 2\n", f"{TARGET}\na 1\ngone 1\n")
    assert bundle.baseline
    assert await series(bundle, bundle.baseline, name_="a|gone") == {"a{pod=dcgm-x}": 1, "gone{pod=dcgm-x}": 1}
    assert await series(bundle, name_="a|gone") == {"a{pod=dcgm-x}": 2}


async def test_a_bundle_without_metrics_says_so(tmp_path: Path) -> None:
    bundle = Bundle.read(write(tmp_path, {"kubernetes/p.yaml": POD % "a"}))
    for asked in (
        bundle.metrics.ask(Question("q"), NOW),
        bundle.metrics.targets(NOW),
        bundle.metrics.metadata(NOW),
        bundle.metrics.bodies(NOW),
    ):
        assert missing(await asked).why is Why.NOT_CONFIGURED
    assert missing(await bundle.metrics.rules()).why is Why.NOT_CONFIGURED
    assert bundle.baseline is None


async def test_selectors_are_counted_by_job(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f'{TARGET}\na{{x="1"}} 1\na{{x="2"}} 1\n')
    selectors = [
        Selector("a"),
        Selector("a", (Matcher("x", "=", "2"),)),
        Selector(None, (Matcher("__name__", "=~", "a|up"),)),
        Selector("z"),
    ]
    counts = known(await bundle.metrics.count_selectors(selectors, NOW))
    assert [c.by_job for c in counts] == [{"dcgm": 2}, {"dcgm": 1}, {"dcgm": 3}, {}]


async def test_metadata_is_kept_by_job(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"# TYPE s gauge\ns 1\n{TARGET}\n# HELP a Text.\n# TYPE a counter\na 1\n")
    assert known(await bundle.metrics.metadata(NOW)) == {("", "s"): Metadata("gauge"), ("dcgm", "a"): Metadata("counter", "Text.")}


# --------------------------------------------------------------------------------------------------------- targets


def listed(health: str = "up", error: str = "", instance: str = "10.0.0.1:9400", **labels: str) -> str:
    target = {
        "labels": {"job": "dcgm", "instance": instance, **labels},
        "scrapeUrl": f"http://{instance}/metrics",
        "health": health,
        "lastError": error,
        "lastScrapeDuration": 0.5,
        "scrapeInterval": "1m30s",
        "scrapeTimeout": "10s",
    }
    return json.dumps({"status": "success", "data": {"activeTargets": [target], "droppedTargets": []}})


async def test_sections_and_the_servers_own_answer_are_one_target(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"{TARGET}\na 1\nprocess_start_time_seconds 99\n", targets__after=listed(pod="dcgm-x", endpoint="m"))
    (target,) = known(await bundle.metrics.targets(NOW))
    assert (target.up, target.interval, target.timeout, target.duration, target.samples) == (True, 90, 10, 0.5, 2)
    assert (target.url, target.honor_labels, target.process_started) == ("http://10.0.0.1:9400/metrics", False, 99)
    assert target.labels["endpoint"] == "m"


async def test_a_target_that_only_the_server_knows_is_listed_too(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"{TARGET}\na 1\n", targets__after=listed("down", "refused", "10.0.0.2:9400"))
    found = {t.instance: (t.up, t.error) for t in known(await bundle.metrics.targets(NOW))}
    assert found == {"10.0.0.1:9400": (True, ""), "10.0.0.2:9400": (False, "refused")}


async def test_a_body_copied_from_a_target_that_the_server_cannot_scrape_was_not_stored(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, f"{TARGET}\na 1\n", targets__after=listed("down", "context deadline exceeded"))
    assert await series(bundle, name_="a|up") == {"up{pod=dcgm-x}": 0}
    (target,) = known(await bundle.metrics.targets(NOW))
    assert (target.up, target.error) == (False, "context deadline exceeded")


async def test_a_bundle_of_targets_alone_lists_them(tmp_path: Path) -> None:
    bundle = Bundle.read(write(tmp_path, {"bundle.yaml": INSTANTS, "targets/after.json": listed("down", "x")}))
    assert [t.up for t in known(await bundle.metrics.targets(NOW))] == [False]
    assert missing(await bundle.metrics.ask(Question("q"), NOW)).why is Why.NOT_CONFIGURED


# --------------------------------------------------------------------------------------------------------- objects


async def test_objects_come_from_single_files_lists_and_streams(tmp_path: Path) -> None:
    bundle = Bundle.read(
        write(
            tmp_path,
            {
                "kubernetes/a.yaml": "---\n" + POD % "a" + "---\n" + POD % "b" + "---\n",
                "kubernetes/deep/down/b.json": json.dumps({"kind": "PodList", "items": [{"metadata": {"name": "c", "namespace": "x"}}]}),
                "kubernetes/c.yml": "kind: List\nitems:\n- " + POD % "d" + "- {kind: Node, metadata: {name: n-1}}\n",
                "kubernetes/before/p.yaml": POD % "old",
                "kubernetes/notes.txt": "not read",
            },
        )
    )

    async def names(kind: str, **how: str) -> list[str]:
        return sorted(o["metadata"]["name"] for o in known(await bundle.objects.list(kind, **how)))

    assert await names("Pod") == ["a", "b", "c", "d"]
    assert await names("Pod", namespace="x") == ["c"]
    assert await names("Pod", labels="app=chat") == await names("Pod", labels="app in (chat, x),!z,app!=y") == ["a", "b", "d"]
    assert await names("Pod", labels="app") == ["a", "b", "d"]
    assert await names("Pod", labels="app notin (chat)") == ["c"]
    assert await names("Pod", fields="metadata.name=a,spec.nodeName=n-1") == ["a"]
    assert await names("Pod", fields="metadata.name!=a,metadata.namespace==ml") == ["b", "d"]
    assert await names("Node") == ["n-1"]
    assert await names("ResourceClaim") == []
    assert bundle.before
    assert [o["metadata"]["name"] for o in known(await bundle.before.list("Pod"))] == ["old"]


async def test_pods_that_were_not_captured_are_not_said_to_be_none(tmp_path: Path) -> None:
    bundle = Bundle.read(write(tmp_path / "a", {"kubernetes/n.yaml": "{kind: Node, metadata: {name: n-1}}"}))
    assert missing(await bundle.objects.list("Pod")).why is Why.NOT_CONFIGURED
    assert known(await bundle.objects.list("ResourceClaim")) == ()
    bundle = Bundle.read(
        write(
            tmp_path / "b",
            {"kubernetes/n.yaml": "{kind: Node, metadata: {name: n-1}}", "kubernetes/p.json": '{"kind":"PodList","items":[]}'},
        )
    )
    assert known(await bundle.objects.list("Pod")) == ()
    bundle = Bundle.read(write(tmp_path / "c", {"metrics/after/a.prom": "a 1\n"}))
    assert missing(await bundle.objects.list("ResourceClaim")).why is Why.NOT_CONFIGURED


async def test_a_broken_file_makes_the_kinds_it_speaks_of_unknown_and_no_others(tmp_path: Path) -> None:
    good = {"kubernetes/n.yaml": "{kind: Node, metadata: {name: n-1}}", "kubernetes/p.yaml": POD % "a"}
    bundle = Bundle.read(write(tmp_path, {**good, "kubernetes/more.yaml": "kind: Pod\nmetadata: {name: b\n"}))
    lost = missing(await bundle.objects.list("Pod"))
    assert (lost.why, lost.detail[:23]) == (Why.MALFORMED, "kubernetes/more.yaml:3:")
    assert len(known(await bundle.objects.list("Node"))) == 1
    assert [p.path for p in bundle.problems] == ["kubernetes/more.yaml"]


@pytest.mark.parametrize(
    "content",
    [
        "{kind: Pod}",
        "{kind: Pod, metadata: null}",
        "{kind: Pod, metadata: {name: [1]}}",
        "kind: PodList\nitems: [7]\n",
        "kind: Pod\nmetadata:\n\tname: x\n",
        b"kind: Pod\nmetadata: {name: \xff}\n",
        "kind: Pod\na: &a [*a]\n",
        'kind: Pod\na: &a ["x","x"]\n'
        + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20)),
        "kind: Pod\nx: !!python/object/apply:os.system [true]\n",
        "kind: Pod\nx: !!int pi\n",
        "kind: Pod\n? {a: 1}\n: 2\n",
        "kind: Pod\nx: " + "[" * 5000,
        "kind: Pod\nx: *nobody\n",
        "kind: Pod\nx: \x07\n",
        "kind: Pod\n" + "".join(" " * i + "a:\n" for i in range(1, 1500)),
    ],
    ids=lambda c: repr(c[:40]),
)
async def test_a_broken_object_is_a_problem_with_its_file(tmp_path: Path, content: str | bytes) -> None:
    bundle = Bundle.read(write(tmp_path, {"kubernetes/p.yaml": POD % "a", "kubernetes/x.yaml": content}))
    assert missing(await bundle.objects.list("Pod")).why is Why.MALFORMED
    assert bundle.problems[0].path == "kubernetes/x.yaml"
    assert "\n" not in str(bundle.problems[0])


@pytest.mark.parametrize("content", ["[1, 2]", "just text", "name: values\n", '{"a":', "", " \n", "# none\n"])
async def test_what_speaks_of_no_kind_leaves_every_kind_unknown_unless_it_says_so_itself(tmp_path: Path, content: str) -> None:
    bundle = Bundle.read(
        write(tmp_path, {"kubernetes/p.yaml": POD % "a", "kubernetes/x.json" if content[:1] == "{" else "kubernetes/x.yaml": content})
    )
    fact = await bundle.objects.list("Pod")
    assert isinstance(fact, Missing) == (content != "# none\n")


# ------------------------------------------------------------------------------------------------ what is unusable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("current: soon\n", "bundle.yaml:1: current: "),
        ("cluster: a\nbaselin: 2026-11-01T10:00:00Z\n", "bundle.yaml:2: baselin: "),
        ("cluster: a\ncluster: b\n", "bundle.yaml:2: a key stands twice"),
        ("trigger:\n  kind: coffee\n", "bundle.yaml:2: trigger.kind: "),
        ("trigger: {subject: {kind: Pod}}\n", "bundle.yaml:1: trigger.subject.name: "),
        ("jobs: dcgm\n", "bundle.yaml:1: jobs: "),
        ("policy: 3\n", "bundle.yaml:1: policy: "),
        ("- a\n", "bundle.yaml: the file: "),
        ("a: [\n", "bundle.yaml:2: not YAML: "),
        ("a: 1\n---\nb: 2\n", "bundle.yaml: more than one document"),
        (b"cluster: \xff\n", "bundle.yaml:1: not UTF-8"),
        ("baseline: 2026-11-01T10:30:00Z\ncurrent: 2026-11-01T10:00:00Z\n", "bundle.yaml: baseline ("),
    ],
)
def test_an_unusable_bundle_yaml_is_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    write(tmp_path, {"bundle.yaml": content, "metrics/after/a.prom": "a 1\n"})
    with pytest.raises(BundleError) as error:
        Bundle.read(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")
    assert "\n" not in str(error.value)


def test_no_directory_a_file_and_an_empty_directory_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"file": "x", "only/bundle.yaml": INSTANTS, "other/README.md": "x", "hollow/kubernetes/.keep": ""})
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "file", "empty", "only", "other", "hollow"):
        with pytest.raises(BundleError, match=name):
            Bundle.read(tmp_path / name)


@pytest.mark.parametrize(
    ("path", "spoil"),
    [
        ("metrics/after/x.prom", lambda p: p.symlink_to(p)),
        ("metrics/after/x.prom", lambda p: p.symlink_to("/etc/passwd")),
        ("metrics/after/x.prom", lambda p: p.mkdir()),
        ("metrics/after/x.prom", os.mkfifo),
        ("metrics/after/x.prom", lambda p: p.symlink_to("/dev/zero")),
        ("metrics/after/x.prom", lambda p: p.write_bytes(b"\x1f\x8b\x08\x00junk")),
        ("metrics/after/x.prom", lambda p: p.write_text("# TARGET job=dcgm\na 1\n")),
        ("metrics/after/x.prom", lambda p: p.write_text('# TARGET job="a" instance="b" honor_labels="maybe"\na 1\n')),
        ("metrics/after/x.prom", lambda p: p.write_text('# TARGET job="a" instance="b" scraped_at="noon"\na 1\n')),
        ("metrics/after/x.prom", lambda p: p.write_text('# TARGET job="a" instance="b" duration="long"\na 1\n')),
    ],
)
async def test_an_unreadable_metrics_file_makes_its_window_unknown(tmp_path: Path, path: str, spoil: Callable[[Path], Any]) -> None:
    write(
        tmp_path,
        {
            "bundle.yaml": INSTANTS,
            "metrics/after/a.prom": f"{TARGET}\na 1\n",
            "metrics/before/a.prom": f"{TARGET}\na 1\n",
            "kubernetes/p.yaml": POD % "a",
        },
    )
    spoil(tmp_path / path)
    bundle = Bundle.read(tmp_path)
    if (tmp_path / path).is_dir():  # a directory is no file, whatever it is called
        assert not bundle.problems
        return
    lost = missing(await bundle.metrics.ask(Question("q"), bundle.current))
    assert lost.why is Why.MALFORMED
    assert lost.detail.startswith(path)
    assert missing(await bundle.metrics.targets(bundle.current)).why is Why.MALFORMED
    assert bundle.baseline
    assert isinstance(await bundle.metrics.ask(Question("q"), bundle.baseline), Known)
    assert isinstance(await bundle.objects.list("Pod"), Known)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"data": {"activeTargets": 5}}', '{"status": "error"}', b"\xff\xfe{"])
async def test_a_broken_list_of_targets_leaves_the_targets_unknown_and_the_metrics_known(tmp_path: Path, content: str | bytes) -> None:
    write(tmp_path, {"bundle.yaml": INSTANTS, "metrics/after/a.prom": f"{TARGET}\na 1\n", "targets/after.json": content})
    bundle = Bundle.read(tmp_path)
    lost = missing(await bundle.metrics.targets(NOW))
    assert (lost.why, lost.source) == (Why.MALFORMED, "targets/after.json")
    assert isinstance(await bundle.metrics.ask(Question("q"), NOW), Known)


async def test_odd_entries_in_the_list_of_targets_are_passed_over(tmp_path: Path) -> None:
    odd = {
        "data": {
            "activeTargets": [None, 5, {}, {"labels": [], "health": 3, "lastScrape": "0001-01-01T00:00:00Z", "scrapeInterval": "often"}]
        }
    }
    bundle = metrics(tmp_path, f"{TARGET}\na 1\n", targets__after=json.dumps(odd))
    assert "10.0.0.1:9400" in {t.instance for t in known(await bundle.metrics.targets(NOW))}


@pytest.mark.parametrize(("folder", "name"), [("rules", "r.yaml"), ("traces", "t.json")])
async def test_a_broken_rule_or_trace_file_makes_that_fact_unknown(tmp_path: Path, folder: str, name: str) -> None:
    for number, content in enumerate([b"\xff\xfe\x00", b"\xff", b"{", b"groups: 5\n", b"a: &a [*a]"]):
        root = write(tmp_path / str(number), {"kubernetes/p.yaml": POD % "a", f"{folder}/{name}": content})
        bundle = Bundle.read(root)
        fact = await bundle.metrics.rules() if folder == "rules" else bundle.traces
        assert missing(fact).why is Why.MALFORMED, content
        assert f"{folder}/{name}" in missing(fact).detail


def test_a_line_of_a_stored_view_that_cannot_be_read_costs_that_line(tmp_path: Path) -> None:
    bundle = metrics(tmp_path, 'a{job="x"} 1\nb{job="x"} nonsense\nc{job="x"} 2\n')
    assert [str(p) for p in bundle.problems] == ['metrics/after/a.prom:2: the value "nonsense" is no number']


async def test_utf16_as_a_shell_on_windows_writes_it_is_read(tmp_path: Path) -> None:
    bundle = Bundle.read(write(tmp_path, {"bundle.yaml": INSTANTS.encode("utf-16"), "kubernetes/p.yaml": (POD % "a").encode("utf-16")}))
    assert len(known(await bundle.objects.list("Pod"))) == 1


async def test_times_and_clock_like_texts_in_yaml_stay_texts(tmp_path: Path) -> None:
    bundle = Bundle.read(
        write(
            tmp_path,
            {"kubernetes/p.yaml": "kind: Pod\nmetadata: {name: a, creationTimestamp: 2026-11-01T10:00:00Z, labels: {t: 12:30:45}}\n"},
        )
    )
    (pod,) = known(await bundle.objects.list("Pod"))
    assert (pod["metadata"]["creationTimestamp"], pod["metadata"]["labels"]["t"]) == ("2026-11-01T10:00:00Z", "12:30:45")


_noise = st.binary(max_size=60) | st.sampled_from(
    [
        b"kind: Pod\n",
        b"{}",
        b"[]",
        b"null",
        b"a: 1\n---\n",
        b'# TARGET job="a"\nb 1\n',
        b"\xff\xfe",
        b"groups: []\n",
        b'{"resourceSpans": 3}',
    ]
)
_paths = st.sampled_from(
    [
        "bundle.yaml",
        "kubernetes/a.yaml",
        "kubernetes/b.json",
        "kubernetes/before/a.yaml",
        "metrics/after/a.prom",
        "metrics/before/b.prom",
        "targets/after.json",
        "targets/before.json",
        "rules/r.yaml",
        "dashboards/d.json",
        "traces/t.json",
        "logs/l.jsonl",
        "alerts/a.json",
    ]
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(_paths, _noise, max_size=6))
async def test_whatever_is_in_the_files_reading_ends_in_a_bundle_or_a_bundle_error(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str | bytes]
) -> None:
    root = write(tmp_path_factory.mktemp("b"), files)
    bundle: Bundle | None = None
    with contextlib.suppress(BundleError):
        bundle = Bundle.read(root, now=NOW)
    if bundle is None:
        return
    for at in (bundle.current, bundle.baseline or bundle.current):
        for fact in (
            await bundle.metrics.ask(Question("q", "count", ("job",)), at),
            await bundle.metrics.targets(at),
            await bundle.metrics.metadata(at),
            await bundle.metrics.bodies(at),
            await bundle.metrics.rules(),
            await bundle.objects.list("Pod"),
        ):
            assert isinstance(fact, Known | Missing)


# ------------------------------------------------------------------------------------------- cases and real parts


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
async def test_every_recorded_case_is_read_whole(path: Path) -> None:
    bundle = Bundle.read(path)
    assert not bundle.problems
    assert known(await bundle.metrics.targets(bundle.current))
    assert known(await bundle.objects.list("Pod"))
    assert known(await bundle.objects.list("Node"))
    assert await series(bundle, name_=".+")
    assert (bundle.baseline is not None) == (path / "metrics/before").exists()


@pytest.mark.parametrize(
    "content", [None, {}, {"bundle.yaml": "a: ["}, {"metrics/after/a.prom": "a x\n"}, {"kubernetes/a.yaml": "&a [*a]"}]
)
def test_the_program_says_one_line_and_never_shows_a_traceback(tmp_path: Path, content: dict[str, str | bytes] | None) -> None:
    root = tmp_path / "b"
    if content is not None:
        root.mkdir()
        write(root, content)
    run = subprocess.run(
        [sys.executable, "-c", "from triggers.cli import main; raise SystemExit(main())", "audit", "--bundle", str(root), "--format", "json"],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert "Traceback" not in run.stderr
    if not content or "bundle.yaml" in content:
        assert (run.returncode, run.stdout) == (2, "")
        assert len(run.stderr.strip().splitlines()) == 1
    else:
        assert run.returncode in (1, 3)
        assert json.loads(run.stdout)["audit"]["verdict"] in ("fail", "unknown")


COLLISIONS = [
    {},
    {"pod": "a"},
    {"pod": ""},
    {"pod": "a", "exported_pod": "b"},
    {"exported_pod": "b"},
    {"pod": "a", "namespace": "n", "node": "x"},
    {"job": "j", "instance": "i"},
    {"pod": "a", "exported_pod": "b", "exported_exported_pod": "c"},
]


@pytest.mark.real
@pytest.mark.parametrize("name", BINARIES)
@pytest.mark.parametrize("honor", [True, False])
async def test_a_real_server_stores_the_same_label_sets(name: str, honor: bool) -> None:
    attached = {"pod": "dcgm-x", "namespace": "gpu", "exported_namespace": "kept"}
    lines = [f"m{i}{{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "} 1" for i, labels in enumerate(COLLISIONS)]
    body = "\n".join(lines) + "\n"
    async with (
        exporters({"t": body}) as fleet,
        prometheus([job("dcgm", fleet, ("t", attached), honor_labels=honor)], binary=BINARIES[name]) as server,
    ):
        await server.scraped(1)
        rows = await server.query('{__name__=~"m[0-9]+"}')
    stored = {r["metric"].pop("__name__"): r["metric"] for r in rows}
    target = {**attached, "job": "dcgm", "instance": "t"}
    assert stored == {f"m{i}": stored_labels(target, labels, honor) for i, labels in enumerate(COLLISIONS)}
