"""Where each kind that an audit or a trigger may read lives in the Kubernetes API. Data, no client.

What isn't here can't be read. Secrets are left out on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind's place: group ("" is core), version ("" means: ask which is served), plural, whether it has namespaces."""

    group: str
    version: str
    plural: str
    namespaced: bool = True


KINDS = {
    "Pod": Resource("", "v1", "pods"),
    "Node": Resource("", "v1", "nodes", namespaced=False),
    "Namespace": Resource("", "v1", "namespaces", namespaced=False),
    "ConfigMap": Resource("", "v1", "configmaps"),
    "Service": Resource("", "v1", "services"),
    "ServiceAccount": Resource("", "v1", "serviceaccounts"),
    "Event": Resource("", "v1", "events"),
    "Deployment": Resource("apps", "v1", "deployments"),
    "StatefulSet": Resource("apps", "v1", "statefulsets"),
    "DaemonSet": Resource("apps", "v1", "daemonsets"),
    "ReplicaSet": Resource("apps", "v1", "replicasets"),
    "ControllerRevision": Resource("apps", "v1", "controllerrevisions"),
    "Job": Resource("batch", "v1", "jobs"),
    "CronJob": Resource("batch", "v1", "cronjobs"),
    "PodDisruptionBudget": Resource("policy", "v1", "poddisruptionbudgets"),
    "HorizontalPodAutoscaler": Resource("autoscaling", "v2", "horizontalpodautoscalers"),
    "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies"),
    "PriorityClass": Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False),
    "ResourceClaim": Resource("resource.k8s.io", "", "resourceclaims"),
    "ResourceSlice": Resource("resource.k8s.io", "", "resourceslices", namespaced=False),
    "DeviceClass": Resource("resource.k8s.io", "", "deviceclasses", namespaced=False),
    "PrometheusRule": Resource("monitoring.coreos.com", "v1", "prometheusrules"),
    "ServiceMonitor": Resource("monitoring.coreos.com", "v1", "servicemonitors"),
    "PodMonitor": Resource("monitoring.coreos.com", "v1", "podmonitors"),
}

#: Versions of a group whose version isn't fixed, best first.
PREFERRED = {"resource.k8s.io": ("v1", "v1beta2", "v1beta1")}
