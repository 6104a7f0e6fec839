"""One plan, staged: what is asked, what each answer makes of the facts, and what one failed question costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.contract.facts import Fact, Facts, Known, Missing, Why, Windows
from functions.contract.policy import Policy
from functions.contract.rules import Rule, RuleKind
from functions.contract.signals import Scope
from functions.contract.telemetry import Target
from functions.evidence.gather import gather
from functions.evidence.meter import REQUESTS, SPARE
from functions.evidence.questions import Series
from functions.evidence.sources import Metadata, MetricSource, ObjectSource
from functions.knowledge import load
from tests.support.memory_metrics import MemoryMetrics, series

NOW = datetime(2026, 11, 1, 10, 30, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=30)
WINDOWS = Windows(BEFORE, NOW)


class MemoryObjects:
    """An `ObjectSource` over dictionaries; what was listed is remembered."""

    def __init__(self, *objects: Mapping[str, Any], refuses: Sequence[str] = ()) -> None:
        self.objects = objects
        self.refuses = refuses
        self.listed: list[tuple[str, str, str, str]] = []

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Mapping[str, Any], ...]]:
        self.listed.append((kind, namespace, labels, fields))
        if kind in self.refuses:
            return Missing(Why.UNAUTHORISED, f"may not list {kind}", kind)

        def chosen(raw: Mapping[str, Any]) -> bool:
            metadata = raw["metadata"]
            key, _, value = labels.partition("=")
            if labels and (key not in metadata.get("labels", {}) or (value and metadata["labels"][key] != value)):
                return False
            path, _, value = fields.partition("=")
            seen = {"metadata.name": metadata["name"], "spec.nodeName": raw.get("spec", {}).get("nodeName", "")}
            return raw["kind"] == kind and namespace in ("", metadata.get("namespace")) and (not fields or seen[path] == value)

        return Known(tuple(raw for raw in self.objects if chosen(raw)), NOW, f"kubernetes {kind}")


def pod(
    name: str, node: str = "n1", namespace: str = "ml", image: str = "trainer", ip: str = "", owner: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": name}
    if owner[0]:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}]},
        "status": {"phase": "Running", "podIP": ip},
    }


def exporter(instance: str, host_label: str = "Hostname", extra: str = "", *, job: str = "dcgm", up: int = 1) -> list[Series]:
    """The series of one dcgm-exporter with two devices."""
    lines = f"up {up}\nscrape_samples_scraped {5 * up}\nscrape_samples_post_metric_relabeling {5 * up}\nscrape_duration_seconds 0.1\n"
    if up:
        for number in range(2):
            labels = f'gpu="{number}",UUID="GPU-{instance}{number}",{host_label}="{instance}"'
            lines += f'DCGM_FI_DEV_GPU_UTIL{{{labels},exported_pod="train-{number}",exported_namespace="ml"}} {90 + number}\n'
            lines += f"DCGM_FI_DEV_FB_USED{{{labels}}} 9223372036854775794\n"
    return series(lines + extra, job=job, instance=instance)


async def gathered(metrics: MetricSource | None, objects: ObjectSource | None = None, **options: Any) -> Facts:
    defaults: dict[str, Any] = {"windows": WINDOWS, "needs": Facts.names(), "scope": Scope(), "knowledge": load(), "policy": Policy()}
    return await gather(metrics, objects, **(defaults | options))


def value(fact: Fact[Any]) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def world(**options: Any) -> MemoryMetrics:
    """Two exporters; on one of them a label and a metric are renamed."""
    extra = 'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 50\n'
    before = exporter("n1", extra=extra) + exporter("n2", extra=extra) + series("other 1\nup 1", job="other", instance="x")
    now = exporter("n1", "hostname") + exporter("n2", extra=extra) + series("other 1\nup 1", job="other", instance="x")
    return MemoryMetrics({BEFORE: before, NOW: now}, **options)


# ------------------------------------------------------------------------------------------------------------- metrics


async def test_only_jobs_that_matter_are_looked_at() -> None:
    facts = await gathered(world())
    assert {metric.job for metric in value(facts.schema)} == {"dcgm"}
    assert {target.job for target in value(facts.targets)} == {"dcgm"}
    assert facts.jobs is None


async def test_a_recording_is_looked_at_as_a_whole() -> None:
    facts = await gathered(world(), jobs=frozenset({"dcgm", "other"}))
    assert {metric.job for metric in value(facts.schema)} == {"dcgm", "other"}
    assert facts.jobs == {"dcgm", "other"}


async def test_the_schema_has_figures_and_labels_of_both_instants() -> None:
    facts = await gathered(world(metadata={("", "DCGM_FI_DEV_GPU_UTIL"): Metadata("gauge", "Busy.")}))
    now = {m.name: m for m in value(facts.schema)}
    before = {m.name: m for m in value(facts.schema_before)}
    util = now["DCGM_FI_DEV_GPU_UTIL"]
    assert (util.series, util.targets, util.low, util.high, util.mean, util.type, util.help) == (4, 2, 90, 91, 90.5, "gauge", "Busy.")
    assert (util.labels["Hostname"], util.labels["hostname"], util.labels["exported_pod"]) == (2, 2, 4)
    assert before["DCGM_FI_DEV_GPU_UTIL"].labels["Hostname"] == 4
    assert before["DCGM_FI_DEV_GPU_UTIL"].type == ""  # a server does not remember what a type was
    assert not {"up", "scrape_samples_scraped"} & now.keys()


async def test_a_histogram_is_known_by_its_shape_where_nothing_says_so() -> None:
    lines = 'ttft_bucket{le="1"} 1\nttft_sum 1\nttft_count 1\nwait{quantile="0.5"} 1\nwait_sum 1\nwait_count 1\nplain_count 1\n'
    facts = await gathered(MemoryMetrics({NOW: exporter("n1", extra=lines)}), windows=Windows(None, NOW))
    types = {m.name: m.type for m in value(facts.schema)}
    assert {types[f"ttft_{s}"] for s in ("bucket", "sum", "count")} == {"histogram"}
    assert {types[n] for n in ("wait", "wait_sum", "wait_count")} == {"summary"}
    assert types["plain_count"] == ""


async def test_devices_and_readings_name_device_and_pod() -> None:
    facts = await gathered(world())
    devices = {d.gpu: d for d in value(facts.devices)}
    assert {"GPU-n10", "GPU-n11", "GPU-n20", "GPU-n21"} <= devices.keys()
    assert {(d.gpu, d.pod) for d in value(facts.devices) if d.pod} >= {("GPU-n10", "train-0"), ("GPU-n21", "train-1")}
    readings = {(r.concept, r.source.gpu): (r.value, r.series) for r in value(facts.readings)}
    assert readings["gpu.utilization", "GPU-n11"] == (91.0, 1)


async def test_the_same_device_twice_is_a_reading_of_two_series() -> None:
    lines = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-n10",Hostname="n1",exported_pod="train-0",exported_namespace="ml",site="2"} 90\n'
    facts = await gathered(MemoryMetrics({NOW: exporter("n1", extra=lines)}), windows=Windows(None, NOW))
    assert {r.series for r in value(facts.readings) if r.source.gpu == "GPU-n10" and r.concept == "gpu.utilization"} == {2}


async def test_what_some_targets_lost_is_told_by_target() -> None:
    name, label = value((await gathered(world())).partial_losses)
    assert (name.metric, name.lost, name.kept, name.label) == ("DCGM_FI_DEV_POWER_USAGE", ("n1",), ("n2",), "")
    assert (label.label, label.lost, label.kept) == ("Hostname", ("n1",), ("n2",))


async def test_a_replaced_target_that_lacks_what_all_had_has_lost_it() -> None:
    extra = "DCGM_FI_DEV_POWER_USAGE 50\n"
    before, now = exporter("n1", extra=extra) + exporter("n2", extra=extra), exporter("n9") + exporter("n2", extra=extra)
    facts = await gathered(MemoryMetrics({BEFORE: before, NOW: now}))
    assert [(loss.lost, loss.kept) for loss in value(facts.partial_losses)] == [(("n9",), ("n2",))]


async def test_a_target_that_is_down_has_lost_nothing() -> None:
    extra = "DCGM_FI_DEV_POWER_USAGE 50\n"
    before, now = exporter("n1", extra=extra) + exporter("n2", extra=extra), exporter("n1", up=0) + exporter("n2", extra=extra)
    assert value((await gathered(MemoryMetrics({BEFORE: before, NOW: now}))).partial_losses) == ()


async def test_values_of_lost_and_new_labels_are_read_at_both_instants() -> None:
    facts = await gathered(world())
    now = {v.label: v.values for v in value(facts.label_values)}
    before = {v.label: v.values for v in value(facts.label_values_before)}
    assert (now["hostname"], now["Hostname"], before["Hostname"]) == ({"n1"}, {"n2"}, {"n1", "n2"})
    assert "UUID" not in now


async def test_values_of_a_matcher_that_selects_nothing_any_more_are_read() -> None:
    rule = Rule(RuleKind.ALERT, "Busy", "g", 'DCGM_FI_DEV_GPU_UTIL{UUID="gpu-n10"} > 90')
    facts = await gathered(world(rules=[rule]))
    assert {v.label: v.values for v in value(facts.label_values)}["UUID"] == {"GPU-n10", "GPU-n11", "GPU-n20", "GPU-n21"}
    assert {str(c.selector): c.series for c in value(facts.selectors)} == {'DCGM_FI_DEV_GPU_UTIL{UUID="gpu-n10"}': 0}


async def test_suspicious_values_are_asked_for_by_device() -> None:
    facts = await gathered(world())
    extremes = {(e.instance, e.labels["UUID"]): e for e in value(facts.extremes)}
    assert len(extremes) == 4
    assert extremes["n1", "GPU-n10"].metric == "DCGM_FI_DEV_FB_USED"
    assert extremes["n1", "GPU-n10"].high == float(9223372036854775794)


async def test_a_recorded_series_is_no_part_of_the_schema() -> None:
    rule = Rule(RuleKind.RECORD, "gpu:util:avg", "g", "avg by (job) (DCGM_FI_DEV_GPU_UTIL)")
    facts = await gathered(MemoryMetrics({NOW: exporter("n1", extra="gpu:util:avg 1\n")}, rules=[rule]), windows=Windows(None, NOW))
    assert "gpu:util:avg" not in {m.name for m in value(facts.schema)}


async def test_a_job_whose_targets_are_all_down_is_known_by_its_baseline() -> None:
    metrics = MemoryMetrics({BEFORE: exporter("n1"), NOW: exporter("n1", up=0)})
    facts = await gathered(metrics)
    assert [(t.instance, t.up) for t in value(facts.targets)] == [("n1", False)]
    assert value(facts.schema) == ()


async def test_a_job_that_never_served_is_known_by_its_pods() -> None:
    down = series('up{namespace="gpu",pod="exp-1"} 0', job="whatever", instance="10.0.0.1:9400")
    objects = MemoryObjects(pod("exp-1", namespace="gpu", image="nvcr.io/nvidia/k8s/dcgm-exporter:4.2"))
    facts = await gathered(MemoryMetrics({NOW: down}), objects, windows=Windows(None, NOW))
    assert [(t.job, t.up) for t in value(facts.targets)] == [("whatever", False)]


async def test_targets_as_listed_are_completed_by_what_is_stored() -> None:
    listed = Target("dcgm", "n1", {"job": "dcgm", "instance": "n1"}, up=True, url="http://n1", honor_labels=True, interval=15.0)
    facts = await gathered(world(targets=[listed]))
    found = {t.instance: t for t in value(facts.targets)}
    assert (found["n1"].url, found["n1"].samples, found["n1"].duration) == ("http://n1", 5, 0.1)
    assert found["n2"].url == ""
    assert {t.honor_labels for t in value(facts.targets_before)} <= {True, None}


# ------------------------------------------------------------------------------------------------------------- failure


FAILURES = {
    "relevance": {"targets", "schema", "devices", "readings", "extremes", "standstill", "label_values", "pipeline", "selectors"},
    "targets": {"targets", "targets_before", "partial_losses"},
    "targets-api": {"targets", "partial_losses"},
    "labels": {"schema", "schema_before", "extremes", "standstill", "label_values", "label_values_before", "partial_losses"},
    "schema": {"schema", "schema_before", "extremes", "standstill", "label_values", "label_values_before", "partial_losses"},
    "samples": {"schema", "schema_before", "extremes", "standstill", "label_values", "label_values_before", "partial_losses"},
    "presence": {"schema", "schema_before", "extremes", "standstill", "label_values", "label_values_before", "partial_losses"},
    "devices": {"devices", "devices_before", "readings"},
    "readings": {"readings"},
    # these share a request, which is halved once where it fails; then nothing is left to spend on finding out more
    "extremes": {"extremes", "partial_losses"},
    "standstill": {"standstill"},
    "instances": {"partial_losses", "label_values", "label_values_before"},
    "bearers": {"partial_losses", "extremes", "label_values_before"},
    "label-values": {"label_values", "label_values_before", "partial_losses"},
    "pipeline": {"pipeline"},
    "selectors": {"selectors", "selectors_before"},
    "metadata": set(),
    "rules": {"rules", "selectors", "selectors_before"},
}


@pytest.mark.parametrize("name", sorted(FAILURES))
async def test_a_failed_question_costs_only_what_rests_on_it(name: str) -> None:
    rule = Rule(RuleKind.ALERT, "Busy", "g", "DCGM_FI_DEV_GPU_UTIL > 90")
    healthy = await gathered(world(rules=[rule]))
    facts = await gathered(world(rules=[rule], fails=lambda asked: name in asked.split("+")))
    held = {n for n in Facts.names() if isinstance(healthy.fact(n), Known)}
    lost = {n for n in held if isinstance(facts.fact(n), Missing)}
    expected = FAILURES[name]
    if name == "relevance":
        expected = expected | {n for n in held if n.endswith("_before")} | {"partial_losses"}
    assert lost == expected
    assert all("timed out" in facts.fact(n).detail for n in lost)  # type: ignore[union-attr]


async def test_a_baseline_of_which_nothing_is_stored_is_none() -> None:
    facts = await gathered(MemoryMetrics({NOW: exporter("n1")}))
    for name in Facts.names():
        if name.endswith("_before"):
            fact = facts.fact(name)
            assert isinstance(fact, Missing)
            assert fact.why is Why.NO_BASELINE
    assert "2026-11-01 10:00:00" in facts.fact("schema_before").detail  # type: ignore[union-attr]
    assert value(facts.schema)


async def test_a_server_that_holds_nothing_at_all_is_no_healthy_server() -> None:
    facts = await gathered(MemoryMetrics({}))
    assert isinstance(facts.schema, Missing)
    assert "no series at all" in facts.schema.detail


async def test_without_any_source_nothing_is_known_and_nothing_breaks() -> None:
    facts = await gathered(None)
    assert all(isinstance(facts.fact(name), Missing) for name in Facts.names())


# ---------------------------------------------------------------------------------------------------------------- cost


async def test_the_number_of_questions_does_not_grow_with_the_fleet() -> None:
    def fleet(size: int) -> MemoryMetrics:
        def moment(label: str, lame: int) -> list[Series]:
            return [s for n in range(size) for s in exporter(f"n{n}", label, "DCGM_FI_DEV_POWER_USAGE 1\n" if n != lame else "")]

        rules = [Rule(RuleKind.ALERT, f"R{n}", "g", f'DCGM_FI_DEV_GPU_UTIL{{gpu="{n}"}} > 1') for n in range(size)]
        return MemoryMetrics({BEFORE: moment("Hostname", -1), NOW: moment("hostname", 0)}, rules=rules)

    small, large = fleet(2), fleet(40)
    await gathered(small)
    await gathered(large)
    assert len(small.asked) == len(large.asked)
    assert len(large.asked) + 1 <= REQUESTS - SPARE  # and the server's configuration, which is no question


async def test_only_what_is_needed_is_asked() -> None:
    metrics, objects = world(), MemoryObjects()
    facts = await gathered(metrics, objects, needs=frozenset({"devices"}))
    assert {name for name, _ in metrics.asked} == {"relevance", "targets", "targets-api", "labels", "devices"}
    assert {kind for kind, *_ in objects.listed} == {"Node", "Pod"}
    assert isinstance(facts.devices, Known)
    assert isinstance(facts.pods, Missing)  # was listed for the devices, and not asked for


# ---------------------------------------------------------------------------------------------------------- Kubernetes


async def test_pods_have_the_owner_a_person_thinks_of() -> None:
    run = {
        "kind": "Job",
        "metadata": {
            "name": "nightly-1",
            "namespace": "ml",
            "ownerReferences": [{"kind": "CronJob", "name": "nightly", "controller": True}],
        },
    }
    objects = MemoryObjects(pod("nightly-1-x", owner=("Job", "nightly-1")), run)
    assert [p.workload for p in value((await gathered(None, objects)).pods)] == ["CronJob/nightly"]


async def test_workloads_know_their_older_templates_and_owned_ones_are_left_out() -> None:
    def template(image: str) -> dict[str, Any]:
        return {"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}}

    def replica_set(name: str, image: str, revision: str) -> dict[str, Any]:
        metadata = {
            "name": name,
            "namespace": "ml",
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"kind": "Deployment", "name": "serve", "uid": "d", "controller": True}],
        }
        return {"kind": "ReplicaSet", "metadata": metadata, "spec": {"template": template(image)}}

    deployment = {"kind": "Deployment", "metadata": {"name": "serve", "namespace": "ml", "uid": "d"}, "spec": {"template": template("v2")}}
    objects = MemoryObjects(deployment, replica_set("serve-1", "v1", "1"), replica_set("serve-2", "v2", "2"))
    (found,) = value((await gathered(None, objects)).workloads)
    assert found.ref == "Deployment/serve"
    assert [t["spec"]["containers"][0]["image"] for t in found.older_templates] == ["v1"]


async def test_configmaps_are_those_of_experiments_and_beside_exporters() -> None:
    def configmap(name: str, namespace: str, **labels: str) -> dict[str, Any]:
        return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"a": "b"}}

    daemon_set = {
        "kind": "DaemonSet",
        "metadata": {"name": "dcgm", "namespace": "gpu"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4"}]}}},
    }
    annotated = {
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "ml", "annotations": {"telltale.dev/experiment": "named"}},
        "spec": {"template": {}},
    }
    marked = configmap("marked", "x", **{"telltale.dev/experiment": "true"})
    objects = MemoryObjects(daemon_set, annotated, marked, configmap("csv", "gpu"), configmap("named", "ml"), configmap("other", "ml"))
    facts = await gathered(None, objects)
    assert {c.name for c in value(facts.configmaps)} == {"marked", "csv", "named"}


async def test_a_list_that_is_refused_costs_its_own_facts() -> None:
    facts = await gathered(None, MemoryObjects(pod("a"), refuses=("Node", "DaemonSet")))
    assert isinstance(facts.nodes, Missing)
    assert isinstance(facts.workloads, Missing)
    assert isinstance(facts.configmaps, Missing)
    assert [p.name for p in value(facts.pods)] == ["a"]


async def test_an_object_that_cannot_be_read_is_a_lost_part_of_the_list() -> None:
    broken = {"kind": "Pod", "metadata": {"name": ""}}
    facts = await gathered(None, MemoryObjects(pod("a"), broken))
    assert isinstance(facts.pods, Known)
    assert len(facts.pods.value) == 1
    assert [(part.why, part.detail) for part in facts.pods.lost] == [(Why.MALFORMED, "kubernetes Pod: Pod without metadata.name")]


async def test_each_kind_is_listed_once() -> None:
    objects = MemoryObjects(pod("a"))
    await gathered(world(), objects)
    assert len(objects.listed) == len(set(objects.listed))


async def test_pods_as_they_were_come_from_a_source_of_their_own() -> None:
    facts = await gathered(world(), MemoryObjects(pod("new")), before=MemoryObjects(pod("old")))
    assert [p.name for p in value(facts.pods)] == ["new"]
    assert [p.name for p in value(facts.pods_before)] == ["old"]


# --------------------------------------------------------------------------------------------------------- node audits


async def test_an_audit_of_a_node_asks_about_that_node_alone() -> None:
    objects = MemoryObjects(pod("exp", namespace="gpu", ip="n1"), pod("train-0"), pod("train-1", node="n2"))
    facts = await gathered(world(), objects, scope=Scope("node", "", "n1"))
    assert {t.instance for t in value(facts.targets)} == {"n1"}
    assert {d.instance for d in value(facts.devices)} == {"n1"}
    assert {d.instance for d in value(facts.devices_before)} == {"n1"}
    # train-1 runs elsewhere, and a series of this node names it: it was looked up
    assert {(p.name, p.node) for p in value(facts.pods)} == {("exp", "n1"), ("train-0", "n1"), ("train-1", "n2")}


async def test_a_node_without_any_target_has_no_series() -> None:
    facts = await gathered(world(), MemoryObjects(), scope=Scope("node", "", "n7"))
    assert value(facts.targets) == ()
    assert value(facts.devices) == ()
    assert value(facts.schema) == ()
