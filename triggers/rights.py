"""What each role asks of the Kubernetes API, as data: the ClusterRoles grant this and nothing else, and a test keeps it so.

The verbs are those of the requests that the code makes: an audit lists, intake also gets the objects behind an event.
Nobody watches here (Knative's adapter does, for `SOURCE`), nobody writes, and Secrets are no kind that is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from functions.evidence.inventory import WORKLOAD_KINDS
from functions.evidence.kubernetes.kinds import KINDS
from triggers import rollouts

Rights = Mapping[str, frozenset[str]]

_GET, _LIST, _WATCH = "get", "list", "watch"

#: role -> kind -> verbs
ROLES: Mapping[str, Rights] = {
    # The objects behind an event (whose Pod, which revision, which budgets), and all of them on a sweep.
    "intake": {
        **dict.fromkeys(("Pod", "Node", "DaemonSet", "StatefulSet"), frozenset({_GET, _LIST})),
        # a Deployment's Pods belong to its ReplicaSets, so that no Pod's event leads to it
        **dict.fromkeys(("Deployment", "Event", "ControllerRevision", "PodDisruptionBudget"), frozenset({_LIST})),
    },
    # What telemetry is compared with; ConfigMaps hold exporters' field lists, dashboards and experiments.
    "audit": dict.fromkeys(
        (
            "Pod",
            "Node",
            "Event",
            "ConfigMap",
            *WORKLOAD_KINDS,
            "ControllerRevision",
            "PodDisruptionBudget",
            "ResourceClaim",
            "ResourceSlice",
            "PrometheusRule",
        ),
        frozenset({_LIST}),
    ),
    "report": {},
    "board": {},
    "dead-letter": {},
}

#: What the ApiServerSource's adapter needs: it is ready only where it may do all three with each kind it is told to watch.
SOURCE: Rights = dict.fromkeys(("Node", "Pod", "Event", *rollouts.KINDS), frozenset({_GET, _LIST, _WATCH}))


def resources(rights: Rights) -> dict[tuple[str, str], frozenset[str]]:
    """The same by (API group, plural), as RBAC names things."""
    return {(KINDS[kind].group, KINDS[kind].plural): verbs for kind, verbs in rights.items()}
