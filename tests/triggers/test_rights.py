"""What the roles may ask of Kubernetes is what they ask: the requests at the wire, the table, and the ClusterRoles are one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions import knowledge
from functions.contract.facts import Facts, Windows
from functions.contract.policy import Policy
from functions.contract.signals import Scope
from functions.evidence.gather import gather
from functions.evidence.kubernetes.kinds import KINDS
from functions.evidence.kubernetes.source import KubernetesSource
from tests.support.kubernetes import FakeKubernetes
from triggers.replay import MemoryEpisodes
from triggers.rights import ROLES, SOURCE, Rights, resources
from triggers.watch import Limits, Options, from_cloudevent, sweep

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "deploy/knative/base"
STREAMS = ROOT / "tests/triggers/streams"
STREAM = [json.loads(line)["object"] for line in (ROOT / "triggers/demo/watch.jsonl").read_text().splitlines()]
#: a drain stalls at once, so that what blocks it is looked up
HASTY = Options(limits=Limits(drain_deadline=timedelta(0)))
PLURALS = {resource.plural: kind for kind, resource in KINDS.items()}
FACTS = frozenset(f.name for f in fields(Facts)) - {"windows", "jobs", "cost"}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeKubernetes]:
    async with FakeKubernetes() as fake:
        fake.put_now(*({o["metadata"]["name"] + o["kind"]: o for o in STREAM}).values())
        yield fake


@pytest.fixture
async def source(cluster: FakeKubernetes, tmp_path: Path) -> AsyncIterator[KubernetesSource]:
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    async with await KubernetesSource.connect(str(tmp_path / "kubeconfig")) as source:
        yield source


def asked(cluster: FakeKubernetes) -> Rights:
    """The requests that came, as verbs by kind."""
    found: dict[str, set[str]] = {}
    for path, query in cluster.requests:
        *_, before, last = path.split("/")
        verb = "watch" if query.get("watch") else "list" if last in PLURALS else "get"
        found.setdefault(PLURALS[last if last in PLURALS else before], set()).add(verb)
    return {kind: frozenset(verbs) for kind, verbs in found.items()}


def granted(role: str) -> Mapping[tuple[str, str], frozenset[str]]:
    """The rules of a ClusterRole by (API group, plural)."""
    documents = list(yaml.safe_load_all((BASE / "rbac.yaml").read_text()))
    (found,) = (d for d in documents if d["kind"] == "ClusterRole" and d["metadata"]["name"] == f"telltale-{role}")
    rules: dict[tuple[str, str], frozenset[str]] = {}
    for rule in found["rules"]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        rules |= {(group, plural): frozenset(rule["verbs"]) for group in rule["apiGroups"] for plural in rule["resources"]}
    return rules


async def test_an_audit_that_needs_everything_asks_what_its_role_may_and_all_of_that(
    cluster: FakeKubernetes, source: KubernetesSource
) -> None:
    now = datetime.now(UTC)
    await gather(
        None,
        source,
        windows=Windows(now, now),
        needs=FACTS,
        scope=Scope("cluster"),
        knowledge=knowledge.load(),
        policy=Policy(),
    )
    assert asked(cluster) == ROLES["audit"]


async def test_intake_asks_what_its_role_may_and_all_of_that(tmp_path: Path) -> None:
    used: dict[str, frozenset[str]] = {}
    for story in ("roll_daemon_set", "roll_stateful_set", "drain_blocked"):
        for kind, verbs in (await play(STREAMS / f"{story}.jsonl", tmp_path)).items():
            used[kind] = used.get(kind, frozenset()) | verbs
    assert used == ROLES["intake"]


async def play(file: Path, folder: Path) -> Rights:
    """What intake asks while Knative's source tells what a real API server once sent, with a sweep before and after."""
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    episodes = MemoryEpisodes()

    async def sink(_signals: Any) -> None:
        return None

    async with FakeKubernetes() as cluster:
        cluster.put_now(*(line["object"] for line in recorded if line["type"] == "LISTED"))
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        async with await KubernetesSource.connect(str(folder / "kubeconfig")) as source:
            await sweep(source, sink, episodes, HASTY)
            for line in recorded:
                if line["type"] == "LISTED":
                    continue
                raw, gone = line["object"], line["type"] == "DELETED"
                if not gone:
                    cluster.put_now(raw)
                told = "delete" if gone else "update"
                await from_cloudevent(f"dev.knative.apiserver.resource.{told}", raw, source, sink, episodes, HASTY)
            await sweep(source, sink, episodes, HASTY)
        return asked(cluster)


@pytest.mark.parametrize(("role", "rights"), [("intake", ROLES["intake"]), ("audit", ROLES["audit"]), ("source", SOURCE)])
def test_the_cluster_roles_grant_the_table_and_nothing_else(role: str, rights: Rights) -> None:
    assert granted(role) == resources(rights)


def test_the_source_watches_the_kinds_that_intake_understands() -> None:
    (source,) = (d for d in yaml.safe_load_all((BASE / "sources.yaml").read_text()) if d["kind"] == "ApiServerSource")
    assert {r["kind"] for r in source["spec"]["resources"]} == SOURCE.keys()
    assert source["spec"]["mode"] == "Resource", "references would have to be read one by one"


def test_each_service_runs_as_its_role_and_roles_without_rights_carry_no_token() -> None:
    services = {d["metadata"]["name"]: d for d in yaml.safe_load_all((BASE / "services.yaml").read_text())}
    assert services.keys() == ROLES.keys()
    for role, rights in ROLES.items():
        assert services[role]["spec"]["template"]["spec"]["serviceAccountName"] == f"telltale-{role if rights else 'quiet'}"
    accounts = {d["metadata"]["name"]: d for d in yaml.safe_load_all((BASE / "rbac.yaml").read_text()) if d["kind"] == "ServiceAccount"}
    assert accounts["telltale-quiet"]["automountServiceAccountToken"] is False


def test_the_handbook_says_what_each_account_may() -> None:
    rights = {"source": SOURCE, "intake": ROLES["intake"], "audit": ROLES["audit"]}
    handbook = (ROOT / "docs/knative.md").read_text()
    for account, granted_kinds in rights.items():
        by_verbs: dict[str, list[str]] = {}
        for (_, plural), verbs in resources(granted_kinds).items():
            by_verbs.setdefault(", ".join(sorted(verbs)), []).append(plural)
        told = "<br>".join(f"{verbs}: {', '.join(sorted(plurals))}" for verbs, plurals in sorted(by_verbs.items()))
        assert f"| `telltale-{account}` | {told} |" in handbook
