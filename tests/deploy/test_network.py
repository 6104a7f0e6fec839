"""Who may speak to whom: denied unless named, and named only where the code has a use for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from triggers.rights import ROLES

BASE = Path(__file__).resolve().parents[2] / "deploy/knative/base"
POLICIES = {d["metadata"]["name"]: d["spec"] for d in yaml.safe_load_all((BASE / "network.yaml").read_text())}
SERVICES = {d["metadata"]["name"]: d["spec"]["template"] for d in yaml.safe_load_all((BASE / "services.yaml").read_text())}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector (equality and In) matches."""
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def ways_out(labels: dict[str, str]) -> set[str]:
    return {name for name, spec in POLICIES.items() if spec.get("egress") and selects(spec["podSelector"], labels)}


def test_everything_is_denied_both_ways_unless_it_is_named() -> None:
    assert POLICIES["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_a_role_reaches_what_it_uses_and_nothing_else() -> None:
    bindings = list(yaml.safe_load_all((BASE / "sinkbindings.yaml").read_text()))
    senders = {binding["spec"]["subject"]["name"] for binding in bindings}
    for role, rights in ROLES.items():
        expected = {"names-out", "redis-out"}
        expected |= {"kubernetes-out"} if rights else set()
        expected |= {"broker-out"} if role in senders else set()
        expected |= {"prometheus-out"} if role == "audit" else set()
        expected |= {"chat-out"} if role == "report" else set()
        assert ways_out(SERVICES[role]["metadata"]["labels"]) == expected, role


def test_the_store_reaches_nothing_and_hears_the_roles_alone() -> None:
    valkey = {"app.kubernetes.io/name": "valkey"}
    assert ways_out(valkey) == {"names-out"}
    heard = [name for name, spec in POLICIES.items() if spec.get("ingress") and selects(spec["podSelector"], valkey)]
    assert heard == ["valkey-in"]
    (source,) = POLICIES["valkey-in"]["ingress"][0]["from"]
    assert all(selects(source["podSelector"], template["metadata"]["labels"]) for template in SERVICES.values())


def test_the_adapter_of_the_source_reaches_the_api_server_and_the_broker() -> None:
    documents = list(yaml.safe_load_all((BASE / "sources.yaml").read_text()))
    name = next(d["metadata"]["name"] for d in documents if d["kind"] == "ApiServerSource")
    assert ways_out({"eventing.knative.dev/sourceName": name}) == {"names-out", "source-out"}


def test_roles_that_judge_or_tell_by_the_policy_are_given_it() -> None:
    for role in ("intake", "audit", "report"):
        (container,) = SERVICES[role]["spec"]["containers"]
        assert {"name": "TELLTALE_POLICY", "value": "/etc/telltale/policy.yaml"} in container["env"], role
        assert {"name": "policy", "configMap": {"name": "telltale-policy"}} in SERVICES[role]["spec"]["volumes"], role
