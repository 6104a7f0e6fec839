"""The Kubernetes objects of a fleet, as heavy as an API server gives them: managed fields, environment, volumes, images."""

from __future__ import annotations

from typing import Any

from benchmarks.scale.fleet import EXPORTER, EXPORTERS, GPUS_A_NODE, Fleet, address, exporter_pod, node_name, pod_address

Raw = dict[str, Any]

CREATED = "2026-03-02T06:00:00Z"


def objects(fleet: Fleet) -> list[Raw]:
    """Nodes, the exporter's DaemonSet and its Pods, and the Pods that hold the GPUs with their Deployments."""
    found = [_node(n) for n in range(fleet.nodes)]
    found += [
        _pod("gpu-operator", exporter_pod(n), n, pod_address(EXPORTERS + n), ("DaemonSet", EXPORTER), EXPORTER) for n in range(fleet.nodes)
    ]
    found.append(_workload("DaemonSet", "gpu-operator", EXPORTER))
    sets: dict[str, str] = {}
    for g in fleet.devices:
        owner = g.pod.rsplit("-", 2)[0] + "-5d8f7c9b64"
        sets[owner] = g.namespace
        found.append(_pod(g.namespace, g.pod, g.node, pod_address(g.number), ("ReplicaSet", owner), "main", gpus=1))
    for owner, namespace in sets.items():
        name = owner.rpartition("-")[0]
        found.append(_workload("Deployment", namespace, name))
        found.append(_workload("ReplicaSet", namespace, owner, ("Deployment", name)))
    return found


def _meta(namespace: str, name: str, labels: dict[str, str], owner: tuple[str, str] | None = None) -> Raw:
    fields = {f"f:key-{n}": {"f:mountPath": {}, "f:name": {}, ".": {}} for n in range(12)}
    found: Raw = {
        "name": name,
        "labels": labels,
        "creationTimestamp": CREATED,
        "uid": f"uid-{namespace}-{name}",
        "managedFields": [
            {
                "manager": m,
                "operation": "Update",
                "apiVersion": "v1",
                "time": CREATED,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": fields},
            }
            for m in ("kube-controller-manager", "kubelet")
        ],
    }
    if namespace:
        found["namespace"] = namespace
    if owner:
        found["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}", "controller": True}
        ]
    return found


def _node(n: int) -> Raw:
    resources = {"cpu": "192", "memory": "2113552084Ki", "pods": "110", "nvidia.com/gpu": str(GPUS_A_NODE)}
    conditions = [
        {
            "type": t,
            "status": "False",
            "lastHeartbeatTime": CREATED,
            "lastTransitionTime": CREATED,
            "reason": f"KubeletHasNo{t}",
            "message": f"kubelet has no {t}",
        }
        for t in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"})
    labels = {"kubernetes.io/hostname": node_name(n), "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}
    labels |= {f"feature.node.kubernetes.io/cpu-cpuid.{x}": "true" for x in range(40)}  # node feature discovery's
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("", node_name(n), labels),
        "spec": {"providerID": f"lab://{node_name(n)}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": address(n)}, {"type": "Hostname", "address": node_name(n)}],
            "nodeInfo": {"bootID": f"boot-{n}", "kubeletVersion": "v1.34.2"},
            "images": [{"names": [f"registry.example.com/image-{i}@sha256:{i:064x}"], "sizeBytes": 10**9} for i in range(30)],
        },
    }


def _template(container: str, gpus: int = 0) -> Raw:
    image = "nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0-4.5.0-ubuntu24.04" if container == EXPORTER else "registry.example.com/train:1.4"
    resources = {"limits": {"cpu": "16", "memory": "200Gi"}, "requests": {"cpu": "16", "memory": "200Gi"}}
    if gpus:
        for held in resources.values():
            held["nvidia.com/gpu"] = str(gpus)
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    return {
        "containers": [
            {
                "name": container,
                "image": image,
                "args": ["--config", "/etc/app/config.yaml"],
                "env": [{"name": f"APP_VARIABLE_{n}", "value": f"value-{n}"} for n in range(20)],
                "resources": resources,
                "livenessProbe": probe,
                "readinessProbe": probe,
                "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/data/{n}", "readOnly": True} for n in range(6)],
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "volumes": [{"name": f"volume-{n}", "persistentVolumeClaim": {"claimName": f"claim-{n}"}} for n in range(6)],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }


def _pod(namespace: str, name: str, node: int, ip: str, owner: tuple[str, str], container: str, gpus: int = 0) -> Raw:
    conditions = [
        {"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED}
        for t in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {"startedAt": CREATED}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(namespace, name, {"app": owner[1], "pod-template-hash": "5d8f7c9b64"}, owner),
        "spec": {**_template(container, gpus), "nodeName": node_name(node)},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "hostIP": address(node),
            "startTime": CREATED,
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": container,
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": state,
                    "lastState": {},
                    "imageID": f"sha256:{7:064x}",
                }
            ],
        },
    }


def _workload(kind: str, namespace: str, name: str, owner: tuple[str, str] | None = None) -> Raw:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": _template(EXPORTER if kind == "DaemonSet" else "main", int(kind != "DaemonSet")),
    }
    spec: Raw = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = 10
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _meta(namespace, name, {"app": name}, owner),
        "spec": spec,
        "status": {"replicas": 10},
    }
