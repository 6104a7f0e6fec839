"""Which node a target or a host label stands for, and which Pod answers behind an address.

People and pipelines name a node by its name, its host name, one of its addresses or a part of its domain name, in any
case of letters. An address of a Pod is only taken from Pods that still run: a finished one keeps its own in its
status after the address was given to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from functions.contract.cluster import Node, Pod
from functions.knowledge.devices import DeviceKnowledge


def host_of(instance: str) -> str:
    """The host part of `host:port`, `[v6]:port`, a URL or a bare host."""
    return _address(instance)[0]


def _address(instance: str) -> tuple[str, int | None]:
    """Host and port; None where it names no port."""
    text = instance.partition("://")[2].partition("/")[0] or instance
    host, colon, port = text.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(port)
    return text.strip("[]"), None


class Places:
    """Nodes and Pods of one moment, by all the names they go under."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], knowledge: DeviceKnowledge) -> None:
        self._knowledge = knowledge
        self._pods = {(p.namespace, p.name): p for p in pods}
        self._capable = {n.name for n in nodes if any(n.capacity.values())}
        self._names: dict[str, str] = {}
        # a node's own name counts before another one's address or host label that happens to be spelled the same
        for spelled in (lambda n: n.addresses, lambda n: (n.labels.get("kubernetes.io/hostname", ""),), lambda n: (n.name,)):
            self._names |= {name.lower(): node.name for node in nodes for name in spelled(node) if name}
        self._short = _unique((node.name.lower().partition(".")[0], node.name) for node in nodes)
        alive: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.ip and pod.node and not pod.finished:
                alive.setdefault(pod.ip, []).append(pod)
        self._by_address = alive
        self._of_nodes = frozenset(address for node in nodes for address in node.addresses)

    def node_named(self, name: str) -> str:
        """The node that a host name or address means, "" where it is none or could be several."""
        lowered = name.strip().lower()
        if not lowered:
            return ""
        if found := self._names.get(lowered):
            return found
        # a domain name against a short node name, or the other way round; an address has no short form
        short = lowered.partition(".")[0]
        found = "" if short.isdigit() or ":" in lowered else self._short.get(short, "")
        return "" if "." in lowered and "." in found else found  # two different domain names are two machines

    def node_of(self, labels: Mapping[str, str], instance: str) -> str:
        """The node that a target runs on: by its node label, its Pod, or its address; "" where nothing tells."""
        for label in self._knowledge.target_node:
            if found := self.node_named(labels.get(label, "")):
                return found
        pod = self.pod_of(labels, instance)
        if pod and pod.node:
            return pod.node
        host = host_of(instance)
        at = {p.node for p in self._by_address.get(host, ())}
        return next(iter(at)) if len(at) == 1 else self.node_named(host)

    def pod_of(self, labels: Mapping[str, str], instance: str) -> Pod | None:
        """The Pod behind a target: the one its labels name, else the only one that can answer at its address."""
        for family in self._knowledge.attribution:
            if family.family != "exported" and (pod := self._pods.get((labels.get(family.namespace, ""), labels.get(family.pod, "")))):
                return pod
        host, port = _address(instance)
        there = self._by_address.get(host, [])
        if len(there) > 1 or host in self._of_nodes:
            # the host's network: the kubelet and several Pods answer there, each at ports of its own
            there = [p for p in there if port in _ports(p)] or [p for p in there if not _ports(p) and self._is_exporter(p)]
        return there[0] if len(there) == 1 else None

    def _is_exporter(self, pod: Pod) -> bool:
        return any(self._knowledge.is_exporter_image(c.image) for c in pod.containers)

    def has_gpus(self, node: str) -> bool:
        """Whether the node has GPU resources at all."""
        return node in self._capable


def _ports(pod: Pod) -> frozenset[int]:
    return frozenset(port for container in pod.containers for port in container.ports)


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for key, value in pairs:
        seen.setdefault(key, set()).add(value)
    return {key: next(iter(values)) for key, values in seen.items() if len(values) == 1 and key}
