"""A real Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager."""

import base64
import json
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.real.testbed import cache, certificates
from tests.real.testbed.closing import Closing
from tests.real.testbed.errors import BedError
from tests.real.testbed.kube_api import KubeApi
from tests.real.testbed.kube_objects import Object
from tests.real.testbed.ports import Ports
from tests.real.testbed.rest import Rest, RestError
from tests.real.testbed.sandbox import Daemon, Sandbox, run, wait_until

REPOSITORY = Path(__file__).parents[3]
GO = {"GOGC": "400"}
"""Collect garbage less often: a fifth of a server's CPU for 100 MB more."""


class KubeServer(KubeApi, Closing):
    """Use as a context manager, or call `close`. All methods block; safe from any thread.

    `apiserver_flags` are added to those of kube-apiserver. `controllers=False` omits the
    controller-manager. `kubelet=False` omits the kubelet stand-in; then no Pod runs or ends.
    `node_grace` is the silence of a Node after which it is not ready; nobody renews the leases of
    fake Nodes.
    """

    def __init__(
        self,
        version: str = cache.KUBE_DEFAULT,
        *,
        controllers: bool = True,
        kubelet: bool = True,
        apiserver_flags: Sequence[str] = (),
        node_grace: str = "24h",
    ) -> None:
        self.version = version
        self._binaries = cache.kube(version).path
        if not self._binaries.is_dir():
            raise BedError(f"Kubernetes {version} is not built: python -m tests.real build")
        self._ports = Ports()
        self._sandbox = Sandbox(f"kube-{version}")
        self.daemons: dict[str, Daemon] = {}
        self._apiserver_flags = list(apiserver_flags)
        self._node_grace = node_grace
        try:
            self._prepare()
            self._start_all(controllers=controllers, kubelet=kubelet)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self.directory = self._sandbox.directory
        certificates.make(self.directory)
        take = self._ports.take
        self._etcd_port, self._etcd_peer_port, self.port = take(), take(), take()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = self.directory / "ca.crt"
        self.admin_token = secrets.token_hex(16)
        tokens = f'{self.admin_token},admin,admin-uid,"system:masters"\n'
        (self.directory / "tokens.csv").write_text(tokens)
        self.token_file = self.directory / "admin.token"
        self.token_file.write_text(self.admin_token)
        self.rest = Rest(
            self.url, headers={"Authorization": f"Bearer {self.admin_token}"}, ca_file=self.ca_file
        )
        self.admin_kubeconfig = self._certificate_kubeconfig("admin")

    def node_kubeconfig(self, name: str) -> Path:
        """Return a kubeconfig for the kubelet of this Node, with a new certificate."""
        certificates.make_node(self.directory, name)
        return self._certificate_kubeconfig(name)

    def _certificate_kubeconfig(self, name: str) -> Path:
        files = {"client-certificate": f"{name}.crt", "client-key": f"{name}.key"}
        user = {f"{key}-data": _base64(self.directory / file) for key, file in files.items()}
        return self._write_kubeconfig(name, user)

    def _write_kubeconfig(self, name: str, user: Object, *, namespace: str = "default") -> Path:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.ca_file)}
        context = {"cluster": "testbed", "user": name, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "testbed", "context": context}],
            "current-context": "testbed",
        }
        path = self.directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        return path

    def kubeconfig_for(
        self, service_account: str, namespace: str = "default", *, lifespan_s: int = 3600
    ) -> Path:
        """Return a kubeconfig with a new token of the ServiceAccount (created if missing)."""
        token = self.token_for(service_account, namespace, lifespan_s=lifespan_s)
        return self._write_kubeconfig(service_account, {"token": token}, namespace=namespace)

    def kubectl(self, *argv: str | Path, kubeconfig: Path | None = None) -> str:
        """Return kubectl's output, as admin by default. BedError with its errors if it fails."""
        # Large definitions take long while four test beds start at once.
        return run([*self.kubectl_command(kubeconfig), *argv], deadline_s=120)

    def kubectl_command(self, kubeconfig: Path | None = None) -> list[str | Path]:
        # By variables: plugins of kubectl refuse flags before their name.
        config = f"KUBECONFIG={kubeconfig or self.admin_kubeconfig}"
        cache_folder = f"KUBECACHEDIR={self.directory / 'kubectl'}"
        return ["env", config, cache_folder, self._binaries / "kubectl"]

    def _start_all(self, *, controllers: bool, kubelet: bool) -> None:
        self.start_etcd()
        self.start()
        if controllers:
            self._start_controller_manager()
        if kubelet:
            self._start_kubelet()
        if controllers:
            wait_until(
                self._has_default_account,
                "the default ServiceAccount",
                deadline_s=60,
                daemons=[self.daemons["kube-controller-manager"]],
            )

    def _spawn(self, name: str, *flags: str | Path) -> None:
        self.daemons[name] = self._sandbox.spawn(name, [self._binaries / name, *flags], env=GO)

    def start_etcd(self) -> None:
        """Start it; it keeps what an earlier one wrote."""
        self.etcd_url = url = f"http://127.0.0.1:{self._etcd_port}"
        peer_url = f"http://127.0.0.1:{self._etcd_peer_port}"
        self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )

    def start(self) -> None:
        directory = self.directory
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={directory / 'apiserver.crt'}",
            f"--tls-private-key-file={directory / 'apiserver.key'}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--anonymous-auth=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'sa.pub'}",
            f"--service-account-signing-key-file={directory / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # For `kubectl logs` and `exec`, where a real kubelet runs.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={directory / 'admin.crt'}",
            f"--kubelet-client-key={directory / 'admin.key'}",
            *self._apiserver_flags,
        )
        daemons = [self.daemons["kube-apiserver"], self.daemons["etcd"]]
        wait_until(self.is_ready, "kube-apiserver ready", deadline_s=90, daemons=daemons)

    def stop(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        """Stop kube-apiserver; etcd keeps everything.

        It would wait a minute for open watches: they are cut after one second.
        """
        self.daemons["kube-apiserver"].stop(a_signal, deadline_s=1)

    def restart(self, a_signal: signal.Signals = signal.SIGTERM) -> None:
        self.stop(a_signal)
        self.start()

    def is_ready(self) -> bool:
        try:
            self.rest.call("GET", "/readyz")
        except (OSError, RestError):
            return False
        return True

    def _has_default_account(self) -> bool:
        try:
            self.rest.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except RestError:
            return False
        return True

    def _start_controller_manager(self) -> None:
        kubeconfig = self._certificate_kubeconfig("controller-manager")
        directory = self.directory
        self._spawn(
            "kube-controller-manager",
            *self._client_flags(kubeconfig),
            f"--service-account-private-key-file={directory / 'sa.key'}",
            f"--root-ca-file={self.ca_file}",
            "--use-service-account-credentials=true",
            f"--cluster-signing-cert-file={self.ca_file}",
            f"--cluster-signing-key-file={directory / 'ca.key'}",
            f"--node-monitor-grace-period={self._node_grace}",
        )

    def start_scheduler(self) -> None:
        """Start kube-scheduler, for Pods of `default-scheduler`; it is not started by default."""
        binary = cache.kube_scheduler(self.version).path / "kube-scheduler"
        if not binary.exists():
            raise BedError(f"kube-scheduler {self.version} is not built: make testbed")
        argv: list[str | Path] = [binary, *self._client_flags(self.admin_kubeconfig)]
        self.daemons[binary.name] = self._sandbox.spawn(binary.name, argv)

    def spawn_beside(self, name: str, argv: Sequence[str | Path]) -> Daemon:
        """Start another server with the rights of an administrator (KUBECONFIG)."""
        env = {**GO, "KUBECONFIG": str(self.admin_kubeconfig)}
        self.daemons[name] = daemon = self._sandbox.spawn(name, argv, env=env)
        return daemon

    def _client_flags(self, kubeconfig: Path) -> list[str]:
        """Return the flags that kube-controller-manager and kube-scheduler share."""
        kinds = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [
            *(f"--{kind}={kubeconfig}" for kind in kinds),
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports.take()}",
            f"--cert-dir={self.directory}",
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def _start_kubelet(self) -> None:
        module = [sys.executable, "-m", "tests.real.testbed.kubelet"]
        self.daemons["kubelet"] = self._sandbox.spawn(
            "kubelet",
            [*module, self.url, self.ca_file, self.token_file],
            env={"PYTHONPATH": str(REPOSITORY)},
        )

    def close(self) -> None:
        self._sandbox.close()
        self._ports.close()


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
