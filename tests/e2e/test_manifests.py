"""Every overlay is accepted by a real API server that knows Knative's kinds, is stable, and goes as it came."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import DEPLOY, NAMESPACE, OVERLAYS, ROLES, Raw, define, gone, missing_definitions, overlay, pods, render, versions

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(missing_definitions()), reason=missing_definitions() or "-")]

STRICT = ("apply", "--server-side", "--validate=strict")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))

    async def up() -> None:
        await plane.start(kubelets=False)
        await define(plane)

    try:
        asyncio.run(up())
        yield plane
    finally:
        asyncio.run(plane.stop())


@pytest.fixture(autouse=True)
async def _clean(plane: ControlPlane) -> AsyncIterator[None]:
    yield
    await plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")


async def why_refused(plane: ControlPlane, *made: Raw) -> str:
    """Empty if the API server would let all of the Pods in, else why not."""
    return (await plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(made), check=False)).stderr


#: the handbook's own way first, then the strict one: an installation may be taken over by the other
WAYS = {"quickstart": (STRICT,), "production": (("apply",), STRICT)}


@pytest.mark.parametrize("name", OVERLAYS)
async def test_an_overlay_is_applied_again_without_a_change_admits_its_pods_alone_and_is_deleted_without_a_rest(
    plane: ControlPlane, name: str
) -> None:
    objects, folder = render(overlay(name)), str(overlay(name))
    assert await versions(plane, objects) == {}
    for way in WAYS[name]:
        await plane.kubectl(*way, "-k", folder)
        first = await versions(plane, objects)
        assert len(first) == len(objects), "each object is there"
        await plane.kubectl(*way, "-k", folder)
        assert await versions(plane, objects) == first
    made = pods(objects)
    assert {f"Service/{role}" for role in ROLES} <= made.keys()
    assert not await why_refused(plane, *made.values())
    for pod in made.values():
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert (await why_refused(plane, *made.values())).count('violates PodSecurity "restricted') == len(made)
    await plane.kubectl("delete", "-k", folder, "--wait=false")
    await gone(plane, objects)


async def test_a_misspelt_field_is_refused_by_its_path(plane: ControlPlane) -> None:
    broker = next(o for o in render(overlay("quickstart")) if o["kind"] == "Broker")
    broker["metadata"]["namespace"] = "default"
    broker["spec"]["delivery"]["deadLeterSink"] = broker["spec"]["delivery"].pop("deadLetterSink")
    refused = await plane.kubectl(*STRICT, "-f", "-", stdin=yaml.safe_dump(broker), check=False)
    assert "spec.delivery.deadLeterSink" in refused.stderr


async def test_monitoring_is_applied_twice_and_deleted(plane: ControlPlane) -> None:
    folder = DEPLOY / "monitoring"
    objects = render(folder)
    await plane.kubectl("create", "namespace", NAMESPACE)
    await plane.kubectl(*STRICT, "-k", str(folder))
    first = await versions(plane, objects)
    assert len(first) == len(objects)
    await plane.kubectl(*STRICT, "-k", str(folder))
    assert await versions(plane, objects) == first
    await plane.kubectl("delete", "-k", str(folder))
    assert await versions(plane, objects) == {}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus' package")
def test_the_rules_are_rules_to_prometheus_itself(tmp_path: Path) -> None:
    rule = next(o for o in render(DEPLOY / "monitoring") if o["kind"] == "PrometheusRule")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    done = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
