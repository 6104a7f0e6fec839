"""A real Kubernetes control plane for tests: etcd, kube-apiserver, controller-manager, scheduler, and kwok for the kubelets.

The programs are those of `KUBEBUILDER_ASSETS` (envtest's convention; with kwok and its stages beside). Everything runs
on loopback, in one directory, as children of the test. What it can't do: run containers, reach Pods, allocate devices.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.ports import free_port

TOKEN = "test-admin-token"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")


def missing_assets() -> str:
    """Why no control plane can be started; empty if one can."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        return "KUBEBUILDER_ASSETS is not set"
    absent = [name for name in (*PROGRAMS, "kwok-stages.yaml") if not (Path(folder) / name).exists()]
    return f"KUBEBUILDER_ASSETS lacks {', '.join(absent)}" if absent else ""


@dataclass
class ControlPlane:
    """Start with `start`, stop with `stop`; `kubeconfig` points at it."""

    folder: Path
    assets: Path = field(default_factory=lambda: Path(os.environ["KUBEBUILDER_ASSETS"]))
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._etcd = free_port()
        self._peer = free_port()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    async def start(self, *, kubelets: bool = True) -> None:
        self._write_files()
        self._start_etcd()
        self.start_api()
        await self.until_ready()
        manager = f"--service-account-private-key-file={self.folder}/sa.key"
        self._run(
            "kube-controller-manager",
            manager,
            "--leader-elect=false",
            "--secure-port=0",
            "--controllers=*,-nodeipam,-route,-cloud-node-lifecycle",
            "--node-monitor-grace-period=40s",
        )
        self._run("kube-scheduler", "--leader-elect=false", "--secure-port=0")
        if kubelets:
            self.start_kubelets()
        await self._until_service_account()

    def start_kubelets(self) -> None:
        """kwok keeps every node Ready and its Pods running."""
        self._run("kwok", f"--config={self.assets}/kwok-stages.yaml", "--manage-all-nodes=true", "--node-lease-duration-seconds=40")

    def start_api(self) -> None:
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--cert-dir={self.folder}/certs",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            f"--service-account-key-file={self.folder}/sa.pub",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--watch-cache=true",
        )

    async def compact(self) -> None:
        """Let etcd forget every version but the latest: a watch from an older one gets 410 Gone."""

        def ask(path: str, **body: str) -> dict[str, Any]:
            url = f"http://127.0.0.1:{self._etcd}/v3/{path}"
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as answer:
                return dict(json.loads(answer.read()))

        latest = (await asyncio.to_thread(ask, "maintenance/status"))["header"]["revision"]
        await asyncio.to_thread(ask, "kv/compaction", revision=latest)

    async def until_ready(self, seconds: float = 60) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await asyncio.to_thread(self._is_ready):
            died = [name for name, process in self._processes.items() if process.poll() is not None]
            if died or loop.time() > deadline:
                raise RuntimeError(
                    f"control plane does not come up ({died or 'too slow'}): {self._tail(died[0] if died else 'kube-apiserver')}"
                )
            await asyncio.sleep(0.2)

    async def _until_service_account(self, seconds: float = 30) -> None:
        """Pods can be made once the controller manager has given the namespace its ServiceAccount."""
        for _ in range(int(seconds * 5)):
            if (await self.kubectl("get", "serviceaccount", "default", check=False)).returncode == 0:
                return
            await asyncio.sleep(0.2)
        raise RuntimeError("no default ServiceAccount: " + self._tail("kube-controller-manager"))

    async def stop(self) -> None:
        """Stop everything at once: nothing of it is kept."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            await asyncio.to_thread(process.wait)
        self._processes.clear()

    async def kill(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop one program of it."""
        process = self._processes.pop(name, None)
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            await asyncio.to_thread(process.wait, 15)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def kubectl(self, *args: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl against it."""
        command = [str(self.assets / "kubectl"), "--kubeconfig", str(self.kubeconfig), *args]
        done = await asyncio.to_thread(subprocess.run, command, input=stdin, capture_output=True, text=True, timeout=180, check=False)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr or done.stdout}")
        return done

    async def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects. Server-side, so that what is applied is what is stored."""
        await self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(objects))

    async def get(self, *args: str) -> Any:
        return json.loads((await self.kubectl("get", *args, "-o", "json")).stdout)

    async def node(self, name: str, gpus: int = 8, labels: dict[str, str] | None = None) -> None:
        """A node with GPUs that kwok keeps Ready."""
        resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}},
            "status": {"capacity": resources, "allocatable": resources, "nodeInfo": _NODE_INFO | {"bootID": f"boot-{name}"}},
        }
        await self.kubectl("create", "-f", "-", stdin=json.dumps(node))
        status = json.dumps({"status": node["status"]})
        await self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", status)

    async def wait(self, *args: str, seconds: int = 60) -> None:
        await self.kubectl("wait", f"--timeout={seconds}s", *args)

    async def rolled_out(self, workload: str, namespace: str = "default", seconds: int = 90) -> None:
        await self.kubectl("rollout", "status", workload, "-n", namespace, f"--timeout={seconds}s")

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        self._spawn(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )

    def _run(self, name: str, *args: str) -> None:
        self._spawn(name, f"--kubeconfig={self.kubeconfig}", *args)

    def _spawn(self, name: str, *args: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen([self.assets / name, *args], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def _is_ready(self) -> bool:
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=ssl._create_unverified_context()) as answer:
                return answer.read() == b"ok"
        except OSError:
            return False

    def _tail(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace")[-1500:] if path.exists() else ""

    def _write_files(self) -> None:
        key, pub = self.folder / "sa.key", self.folder / "sa.pub"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", pub], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig(self.url, TOKEN)))
        self.kubeconfig.chmod(0o600)


_NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.1",
    "kernelVersion": "6.8.0",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.36.3",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "test",
    "systemUUID": "",
}


def kubeconfig(url: str, token: str) -> dict[str, Any]:
    """A kubeconfig for a server with a certificate of its own making."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
