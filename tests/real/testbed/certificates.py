"""Keys and certificates of one Kubernetes control plane, made by openssl, with its own CA."""

from pathlib import Path

from tests.real.testbed.sandbox import run

SERVING_NAMES = (
    "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,"
    "DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
)
DAYS = "30"


def make(directory: Path) -> None:
    """Write ca, apiserver, admin and controller-manager (.crt, .key) and sa.key, sa.pub."""
    _certificate_authority(directory)
    _sign(directory, "apiserver", "/CN=kube-apiserver", f"subjectAltName={SERVING_NAMES}")
    _sign(directory, "admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth")
    _sign(
        directory,
        "controller-manager",
        "/CN=system:kube-controller-manager",
        "extendedKeyUsage=clientAuth",
    )
    _key(directory / "sa.key")
    _openssl("ec", "-in", directory / "sa.key", "-pubout", "-out", directory / "sa.pub")


def make_node(directory: Path, name: str) -> None:
    """Write NAME.crt and NAME.key, with which the kubelet of this Node speaks."""
    subject = f"/O=system:nodes/CN=system:node:{name}"
    _sign(directory, name, subject, "extendedKeyUsage=clientAuth")


def _certificate_authority(directory: Path) -> None:
    key = directory / "ca.key"
    _key(key)
    where: list[str | Path] = ["-key", key, "-out", directory / "ca.crt"]
    what = ["-days", DAYS, "-subj", "/CN=sunk-sync-testbed"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl("req", "-x509", "-new", *what, *usage, *where)


def _sign(directory: Path, name: str, subject: str, extension: str) -> None:
    key = directory / f"{name}.key"
    _key(key)
    signer: list[str | Path] = ["-CA", directory / "ca.crt", "-CAkey", directory / "ca.key"]
    leaf = "basicConstraints=critical,CA:FALSE"
    what = ["-days", DAYS, "-subj", subject, "-addext", extension, "-addext", leaf]
    out: list[str | Path] = ["-out", directory / f"{name}.crt"]
    _openssl("req", "-x509", "-new", "-key", key, *signer, *what, *out)


def _key(path: Path) -> None:
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _openssl(*argv: str | Path) -> None:
    run(["openssl", *argv])
