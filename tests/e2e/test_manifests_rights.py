"""Each role's account, by its real token on a real API server: what the code asks is allowed, everything else refused."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, kubeconfig, missing_assets
from tests.e2e.manifests import DEPLOY
from tests.e2e.workloads import daemon_set
from tests.support.exporters import exporters
from tests.support.prometheus import job, prometheus
from triggers.rights import ROLES, SOURCE, resources

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "-")]

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: beside what any role may read: what nobody may
FORBIDDEN = (
    *(
        ("", name)
        for name in ("secrets", "pods/exec", "pods/log", "pods/attach", "pods/portforward", "pods/eviction", "pods/ephemeralcontainers")
    ),
    *(
        ("", name)
        for name in ("nodes/proxy", "nodes/status", "services", "services/proxy", "namespaces", "serviceaccounts", "serviceaccounts/token")
    ),
    ("apps", "deployments/scale"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("serving.knative.dev", "services"),
)
RIGHTS = {"source": SOURCE, "intake": ROLES["intake"], "audit": ROLES["audit"], "quiet": ROLES["report"]}
EXPOSITION = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="gpu-0"} 5\n'


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))

    async def up() -> None:
        await plane.start()
        await plane.node("gpu-0")
        await plane.kubectl("create", "namespace", "telltale")
        await plane.kubectl("apply", "-n", "telltale", "-f", str(DEPLOY / "base/rbac.yaml"))
        await plane.apply(daemon_set("dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.0"))
        await plane.rolled_out("daemonset/dcgm-exporter")

    try:
        asyncio.run(up())
        yield plane
    finally:
        asyncio.run(plane.stop())


async def token(plane: ControlPlane, account: str) -> str:
    return (await plane.kubectl("create", "token", f"telltale-{account}", "-n", "telltale")).stdout.strip()


@pytest.mark.parametrize("account", RIGHTS)
async def test_an_account_may_do_what_its_code_does_and_nothing_else(plane: ControlPlane, account: str) -> None:
    used = resources(RIGHTS[account])
    everything = {*FORBIDDEN, *(place for rights in (SOURCE, *ROLES.values()) for place in resources(rights))}
    context = ssl._create_unverified_context()
    headers = {"Authorization": f"Bearer {await token(plane, account)}"}
    url = f"{plane.url}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    async with aiohttp.ClientSession(headers=headers) as session:

        async def may(group: str, resource: str, verb: str) -> bool:
            name, _, sub = resource.partition("/")
            attributes = {"verb": verb, "group": group, "resource": name, "subresource": sub}
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
            async with session.post(url, json=review, ssl=context) as response:
                assert response.status == 201, await response.text()
                return bool((await response.json())["status"]["allowed"])

        asked = [(group, resource, verb) for group, resource in sorted(everything) for verb in VERBS]
        answers = await asyncio.gather(*(may(*question) for question in asked))
    allowed = {question for question, answer in zip(asked, answers, strict=True) if answer}
    assert allowed == {(*place, verb) for place, verbs in used.items() for verb in verbs}


async def test_a_live_audit_under_its_accounts_token_lacks_nothing_of_the_cluster(plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig(plane.url, await token(plane, "audit"))))
    async with exporters({"gpu-0": EXPOSITION}) as fleet, prometheus([job("dcgm-exporter", fleet, "gpu-0")]) as server:
        await server.scraped(3)
        settings = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "TELLTALE_PROMETHEUS_URL": server.url, "TELLTALE_CLUSTER": "lab"}
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_"))}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "triggers.cli", "audit", "--format", "json"),
            env={**clean, **settings, "PYTHONPATH": str(DEPLOY.parents[1])},
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
    report = json.loads(printed)
    assert process.returncode in (0, 1, 3)
    lost = [m for check in report["checks"] for m in check["missing"] if m["why"] in ("unauthorised", "unreachable", "not-configured")]
    assert not lost
    # it takes the node and its Pods to know that a busy device should name one of them
    assert "label-mapping/unattributed-use" in {f["code"] for f in report["findings"]}
