"""The main job on a real control plane: `telltale run` with the rights of deploy/knative/base and no others, a real
Prometheus, a DaemonSet that is rolled out, a Deployment, a drain that a budget blocks, an API server that is killed,
forgets and throttles.

One control plane and one `telltale run` serve all tests of this file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.e2e.control_plane import ControlPlane, kubeconfig, missing_assets
from tests.e2e.devices import GPUS, NEW, OLD, Devices, targets
from tests.e2e.workloads import budget, daemon_set, deployment, template
from tests.support.inbox import Message
from tests.support.main_job import EXPORTER, INCIDENT, ROOT, MainJob, about, codes, main_job

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "-"),
    pytest.mark.asyncio(loop_scope="module"),
]

NODES = ("gpu-h1", "gpu-h2", "gpu-h3")
MODEL = "chat-70b"


@dataclass
class Lab:
    plane: ControlPlane
    job: MainJob
    #: what Telltale has: the token of its account
    reader: Path

    def messages(self, since: int) -> list[Message]:
        return self.job.chat.messages[since:]

    async def as_telltale(self, *args: str, stdin: str = "") -> str:
        """What kubectl says with Telltale's rights."""
        done = await self.plane.kubectl("--kubeconfig", str(self.reader), *args, stdin=stdin, check=False)
        return done.stdout + done.stderr


def model() -> dict[str, Any]:
    container = {"name": "main", "image": "vllm/vllm-openai:v0.14.1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    return deployment(MODEL, "", 3, "chat-prod", template=template(MODEL, "", containers=[container]))


def exporters(image: str) -> dict[str, Any]:
    return daemon_set(EXPORTER, image, "gpu-operator")


async def rights(plane: ControlPlane, path: Path) -> None:
    """An account bound to the roles of the deployment; `telltale run` does the work of all of them."""
    found = yaml.safe_load_all((ROOT / "deploy/knative/base/rbac.yaml").read_text())
    roles = [o for o in found if o["kind"] == "ClusterRole"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "telltale", "namespace": "default"}}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": role["metadata"],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": "telltale", "namespace": "default"}],
        }
        for role in roles
    ]
    await plane.apply(account, *roles, *bindings)
    token = (await plane.kubectl("create", "token", "telltale")).stdout.strip()
    path.write_text(yaml.safe_dump(kubeconfig(plane.url, token)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), Path(os.environ["KUBEBUILDER_ASSETS"]))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(plane.stop)
        await plane.start()
        await asyncio.gather(*(plane.node(name, GPUS) for name in NODES))
        namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("gpu-operator", "chat-prod")]
        await plane.apply(*namespaces)
        await plane.wait("node", "--all", "--for=condition=Ready")
        await plane.apply(exporters(OLD), model())
        await plane.rolled_out(f"daemonset/{EXPORTER}", "gpu-operator")
        await plane.rolled_out(f"deployment/{MODEL}", "chat-prod")
        await rights(plane, folder / "reader")
        # sweeps are far apart, so that it is the watch that has to go on after everything that happens to it
        settings = {"DASHBOARDS": str(INCIDENT / "dashboards/gpu-fleet.json"), "SWEEP": "120"}
        job = await stack.enter_async_context(
            main_job(folder / "reader", folder, targets=targets(), rules="groups: []\n", start=False, **settings)
        )
        await stack.enter_async_context(Devices(plane, job.fleet))
        await job.fleet.scraped(6)
        await job.start()
        assert (await job.audited("schedule", "first-start"))["verdict"] == "pass"
        yield Lab(plane, job, folder / "reader")


async def test_the_account_reads_and_can_neither_write_nor_see_secrets(lab: Lab) -> None:
    assert EXPORTER in await lab.as_telltale("get", "pods", "-n", "gpu-operator")
    assert 'cannot list resource "secrets"' in await lab.as_telltale("get", "secrets", "-A")
    note = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "default"}})
    assert 'cannot create resource "configmaps"' in await lab.as_telltale("create", "-f", "-", stdin=note)
    assert "cannot delete resource" in await lab.as_telltale("delete", "node", NODES[0])
    assert 'cannot create resource "pods/eviction"' in await lab.as_telltale(
        "drain", NODES[0], "--ignore-daemonsets"
    ) + await lab.as_telltale("create", "--raw", f"/api/v1/namespaces/chat-prod/pods/{MODEL}/eviction", "-f", "-", stdin="{}")


async def test_a_rollout_of_a_model_that_breaks_nothing_gets_a_line_at_most(lab: Lab) -> None:
    begun = len(lab.job.chat.messages)
    await lab.plane.kubectl("rollout", "restart", f"deployment/{MODEL}", "-n", "chat-prod")
    audit = await lab.job.audited("rollout", "complete")
    assert (audit["scope"], audit["verdict"]) == (f"Deployment/chat-prod/{MODEL}", "pass")
    await asyncio.sleep(1)
    assert [len(m["text"].strip().splitlines()) for m in lab.messages(begun)] in ([], [1])


async def test_a_drain_that_a_budget_blocks_is_told_and_the_nodes_way_home_too(lab: Lab) -> None:
    begun, node = len(lab.job.chat.messages), NODES[1]
    await lab.plane.apply(budget(MODEL, MODEL, 3, "chat-prod"))
    await lab.plane.kubectl("drain", node, "--ignore-daemonsets", "--timeout=2s", check=False)
    stalled = await lab.job.told("summary", "drain", "stalled")
    assert f"chat-prod/{MODEL} allows no disruption" in stalled["report"]["signals"][-1]["summary"]
    stub = await lab.job.chat.wait(lambda m: m["kind"] == "postmortem")
    assert "allows no disruption" in stub["text"]
    await lab.plane.kubectl("delete", "pdb", MODEL, "-n", "chat-prod")
    await lab.plane.kubectl("drain", node, "--ignore-daemonsets")
    await lab.job.told("summary", "drain", "drained")
    await lab.plane.kubectl("uncordon", node)
    home = await lab.job.told("summary", "rejoin", "rejoined")
    assert home["report"]["audit"]["scope"] == f"node/{node}"
    told = [(about(m), m["report"]["audit"]["verdict"]) for m in lab.messages(begun) if m["kind"] == "summary"]
    assert told == [(("drain", "stalled"), "pass"), (("drain", "drained"), "pass"), (("rejoin", "rejoined"), "pass")]


def throttle(namespace: str = "default", name: str = "telltale") -> list[dict[str, Any]]:
    """Priority and fairness that leave one account no request at all: 429, as under a storm."""
    level = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "nothing"},
        "spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}},
        },
    }
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": namespace}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    flow = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "nothing"},
        "spec": {
            "priorityLevelConfiguration": {"name": "nothing"},
            "matchingPrecedence": 2,
            "rules": [{"subjects": [subject], "resourceRules": [rule]}],
        },
    }
    return [level, flow]


async def refusals(lab: Lab, seconds: float = 90) -> None:
    """Wait until the API server has answered Telltale with 429."""
    async with asyncio.timeout(seconds):
        while True:
            metrics = (await lab.plane.kubectl("get", "--raw", "/metrics")).stdout.splitlines()
            if any(line.startswith("apiserver_flowcontrol_rejected_requests_total") and '"nothing"' in line for line in metrics):
                return
            await asyncio.sleep(0.5)


async def test_the_upgrade_of_the_exporters_is_told_through_throttling_and_a_killed_api_server(lab: Lab) -> None:
    begun = len(lab.job.chat.messages)
    await lab.plane.apply(*throttle())
    await lab.plane.apply(exporters(NEW))
    await asyncio.sleep(1)
    await lab.plane.kill("kube-apiserver", SIGKILL)
    await lab.plane.compact()
    lab.plane.start_api()
    await lab.plane.until_ready()
    await refusals(lab)
    await lab.plane.kubectl("delete", "flowschema", "nothing")
    told = await lab.job.chat.wait(lambda m: about(m) == ("rollout", "complete") and bool(codes(m)), 60)
    assert told["report"]["audit"]["scope"] == f"DaemonSet/gpu-operator/{EXPORTER}"
    assert {"metric-rename/renamed", "metric-rename/unit-changed", "metric-rename/label-renamed", "metric-rename/rule-dead"} <= codes(told)
    assert "DCGM_FI_DEV_GPU_TEMP_CELSIUS" in told["text"]
    assert not {c for c in codes(told) if c.startswith("label-mapping")}, "every device still names its Pod"
    missed = told["report"]["audit"]["coverage"]
    assert any("may have gone unseen" in line for line in missed), "410 Gone is a gap, and said"
    assert len([m for m in lab.messages(begun) if codes(m)]) == 1
