"""Builder of the test bed's servers in the cache, from Go modules and Debian packages."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.real.testbed import cache, debian
from tests.real.testbed.accounting import MAKE_DATABASE
from tests.real.testbed.cache import Artifact
from tests.real.testbed.errors import BedError, CannotRunError
from tests.real.testbed.progress import Progress

KUBE_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kubectl")
KUBE_SCHEDULER = "kube-scheduler"
KUBELET = "kubelet"
ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"
# Older ones cannot fetch the version of Go that a module requires.
OLDEST_GO = (1, 21)
# An older debootstrap does not know the newer suites, so the script is named.
DEBOOTSTRAP_SCRIPT = "/usr/share/debootstrap/scripts/sid"
IMAGE_BASE_FILE = "base.tar"
VERSION_FILE = "VERSION"

Job = tuple[Artifact, Callable[[Path], None]]

_CONTROLLERS = {
    cache.controllers(): cache.CONTROLLERS,
    cache.frameworks(): cache.FRAMEWORKS,
}
if os.environ.get("SUNK_SYNC_KUEUE") or cache.kueue().built:
    _CONTROLLERS[cache.kueue()] = cache.KUEUE  # ten minutes of two cores: not for everybody

_running: set[subprocess.Popen[str]] = set()


def build(kube: str | None, slurm: Sequence[str], progress: Progress) -> None:
    """Build what the cache lacks. CannotRunError says what the machine lacks."""
    _check(
        partial(_require_go_for, kube),
        partial(_require_debian_for, slurm, progress),
        partial(debian.require_command, "openssl", "openssl", progress),
    )
    _try_commands(progress)
    # The scheduler and helm reuse the compiled packages of the servers: they are built after them.
    go = [*_kube_jobs(kube, progress), *_chart_jobs(progress), *_controller_jobs(progress)]
    debian_jobs = [
        *_slurm_jobs(slurm, progress),
        *_image_jobs(progress),
        *_promtool_jobs(progress),
    ]
    lanes = [go, *([job] for job in debian_jobs)]
    with ThreadPoolExecutor(len(lanes)) as threads:
        results = [threads.submit(_ensure_each, lane) for lane in lanes]
        try:
            for result in results:
                result.result()
        except KeyboardInterrupt:
            for process in list(_running):
                process.kill()
            raise
    debian_artifacts = [*map(cache.slurm, slurm), cache.image_base(), cache.promtool()]
    for artifact in [*_go_artifacts(kube), *debian_artifacts]:
        version = (artifact.path / VERSION_FILE).read_text().strip()
        progress.say(artifact.name, f"{version}, in {artifact.path}")


def _ensure_each(lane: Sequence[Job]) -> None:
    for artifact, job in lane:
        artifact.ensure(job)


def _check(*requirements: Callable[[], None]) -> None:
    missing = []
    for requirement in requirements:
        try:
            requirement()
        except CannotRunError as error:
            missing.append(str(error))
    if missing:
        raise CannotRunError("\n  ".join(["", *missing]).strip())


def run_logged(argv: Sequence[str | Path], log: Path, see: Callable[[str], None]) -> None:
    """Run a command with its output in the log; `see` gets each line. BedError if it fails."""
    words = ["setpriv", "--pdeathsig", "KILL", *map(str, argv)]
    with (
        log.open("a") as out,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        _running.add(process)
        assert process.stdout is not None
        last: list[str] = []
        for line in process.stdout:
            out.write(line)
            see(line)
            last = [*last[-9:], line.rstrip()]
    _running.discard(process)
    if process.returncode:
        said = "\n  ".join(last)
        raise BedError(
            f"{argv[0]} failed with exit code {process.returncode} (log: {log}):\n  {said}"
        )


def _kube_artifacts(version: str | None) -> list[Artifact]:
    return [cache.kube(version), cache.kube_scheduler(version)] if version else []


def _go_artifacts(kube: str | None) -> list[Artifact]:
    return [*_kube_artifacts(kube), cache.chart_tools(), *_CONTROLLERS]


def _kube_jobs(version: str | None, progress: Progress) -> list[Job]:
    if version is None:
        return []
    builders = (_build_kube, _build_kube_scheduler)
    return [
        (artifact, partial(build, version, progress))
        for artifact, build in zip(_kube_artifacts(version), builders, strict=True)
        if not artifact.built
    ]


def _chart_jobs(progress: Progress) -> list[Job]:
    artifact = cache.chart_tools()
    return [] if artifact.built else [(artifact, partial(_build_chart_tools, progress))]


def _controller_jobs(progress: Progress) -> list[Job]:
    return [
        (artifact, partial(_build_controllers, artifact, commands, progress))
        for artifact, commands in _CONTROLLERS.items()
        if not artifact.built
    ]


def _require_go_for(version: str | None) -> None:
    if not all(artifact.built for artifact in _go_artifacts(version)):
        require_go()


def require_go() -> None:
    go = shutil.which("go")
    cure = "install Go 1.21 or later and put it on PATH (Debian 13: apt-get install golang-go)"
    if go is None:
        raise CannotRunError(f"go is missing: {cure}")
    said = subprocess.run([go, "version"], capture_output=True, text=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GO:
        raise CannotRunError(f"{go} is too old ({said.strip()}): {cure}")


def _build_kube(version: str, progress: Progress, part: Path) -> None:
    artifact = cache.kube(version)
    # Build each alone: linked packages stay in Go's cache when a later one fails.
    for command in KUBE_COMMANDS:
        _build_command(version, command, progress, part)
    with progress.step(artifact.name, "building etcd") as step:
        etcd = _go_build(artifact.name, ["-s -w"], part / "etcd", ETCD_PACKAGE)
        run_logged(etcd, artifact.log, step.see)
    versions = [
        _first_line(part / "kube-apiserver", "--version"),
        _first_line(part / "etcd", "-version"),
    ]
    (part / VERSION_FILE).write_text(", ".join(versions) + "\n")


def _build_kube_scheduler(version: str, progress: Progress, part: Path) -> None:
    _build_command(version, KUBE_SCHEDULER, progress, part)
    (part / VERSION_FILE).write_text(_first_line(part / KUBE_SCHEDULER, "--version") + "\n")


def build_kubelet(version: str, progress: Progress) -> None:
    """Build the kubelet of tests/e2e unless the cache has it."""
    artifact = cache.kubelet(version)
    if artifact.built:
        return
    require_go()

    def make(part: Path) -> None:
        _build_command(version, KUBELET, progress, part)
        (part / VERSION_FILE).write_text(_first_line(part / KUBELET, "--version") + "\n")

    artifact.ensure(make)


def build_local_path(progress: Progress) -> None:
    """Build the provisioner of tests/e2e unless the cache has it."""
    artifact = cache.local_path()
    if artifact.built:
        return
    require_go()

    def make(part: Path) -> None:
        with progress.step(artifact.name, "building the provisioner") as step:
            build = _go_build(artifact.name, ["-s -w"], part / artifact.name, cache.LOCAL_PATH)
            run_logged(build, artifact.log, step.see)

    artifact.ensure(make)


def _build_command(version: str, command: str, progress: Progress, part: Path) -> None:
    artifact = cache.kubelet(version) if command == KUBELET else cache.kube(version)
    major, minor, _ = version.split(".")
    in_version = "k8s.io/component-base/version"
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    flags = ["-s -w", *(f"-X {in_version}.{key}={value}" for key, value in values.items())]
    with progress.step(artifact.name, f"building {command}") as step:
        package = f"k8s.io/kubernetes/cmd/{command}"
        build = _go_build(artifact.name, flags, part / command, package)
        run_logged(build, artifact.log, step.see)


def _build_chart_tools(progress: Progress, part: Path) -> None:
    artifact = cache.chart_tools()
    flags = ["-s -w", *(f"-X {name}={value}" for name, value in cache.HELM_VALUES.items())]
    for command, package in cache.CHART_TOOLS.items():
        with progress.step(artifact.name, f"building {command}") as step:
            build = _go_build(artifact.name, flags, part / command, package)
            run_logged(build, artifact.log, step.see)
    modules = (cache.GO / artifact.name / "go.mod").read_text()
    versions = re.findall(r"(helm|kubeconform)(?:/v3)? (v[0-9.]+)", modules)
    said = ", ".join(" ".join(found) for found in versions)
    (part / VERSION_FILE).write_text(said + "\n")


def _build_controllers(
    artifact: Artifact, commands: Mapping[str, str], progress: Progress, part: Path
) -> None:
    """Build the managers, and copy their manifests from the modules beside them."""
    said = []
    for command, package in commands.items():
        with progress.step(artifact.name, f"building {command}") as step:
            build = _go_build(artifact.name, ["-s -w"], part / command, package)
            run_logged(build, artifact.log, step.see)
        query: list[str | Path] = ["go", "-C", cache.GO / artifact.name, "list", "-mod=readonly"]
        form = "{{.Module.Dir}} {{.Module.Version}}"
        folder, version = _first_line(*query, "-f", form, package).split()
        # Modules are read-only, also for whoever removes the cache.
        top = cache.MANIFESTS.get(command, cache.MANIFESTS_DEFAULT).partition("/")[0]
        to = part / f"{command}-config"
        copy: list[str | Path] = ["cp", "-r", "--no-preserve=mode", f"{folder}/{top}", to]
        run_logged(copy, artifact.log, step.see)
        said.append(f"{command} {version}")
    (part / VERSION_FILE).write_text(", ".join(said) + "\n")


def _go_build(name: str, flags: Sequence[str], out: Path, package: str) -> list[str | Path]:
    """`name` is a folder of cache.GO."""
    module = cache.GO / name
    # Read only: exactly the versions of go.mod with the hashes of go.sum, or an error.
    build = ["build", "-v", "-mod=readonly", "-buildvcs=false", "-ldflags", " ".join(flags)]
    return ["go", "-C", module, *build, "-o", out, package]


def _first_line(*argv: str | Path) -> str:
    said = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0]


def _try_commands(progress: Progress) -> None:
    """Install what builds and runs the image, and a browser; the servers need none of them."""
    tests_of = {**dict.fromkeys(cache.IMAGE_COMMANDS, "image"), cache.BROWSER: "status page"}
    for command, what in tests_of.items():
        try:
            debian.require_command(command, command, progress)
        except CannotRunError as error:
            progress.say(command, f"{error}; the tests of the {what} cannot run")


def _missing_roots(versions: Sequence[str]) -> list[str]:
    return [version for version in versions if not cache.slurm(version).built]


def _require_debian_for(versions: Sequence[str], progress: Progress) -> None:
    missing = not (cache.image_base().built and cache.promtool().built)
    if missing or _missing_roots(versions):
        debian.require_root()
        debian.require_command("debootstrap", "debootstrap", progress)
        debian.mirror(progress)


def _slurm_jobs(versions: Sequence[str], progress: Progress) -> list[Job]:
    return [
        (cache.slurm(version), partial(_build_slurm, version, debian.mirror(progress), progress))
        for version in _missing_roots(versions)
    ]


def _build_slurm(version: str, mirror: str, progress: Progress, part: Path) -> None:
    artifact = cache.slurm(version)
    suite = cache.SLURM_SUITES[version]
    with progress.step(artifact.name, f"debootstrap {suite}") as step:
        make_root = _debootstrap(suite, part, mirror, packages=cache.SLURM_PACKAGES)
        run_logged(make_root, artifact.log, step.see)
        run_logged(["chroot", part, "sh", "-ec", MAKE_DATABASE], artifact.log, step.see)
    got = _first_line("chroot", part, "/usr/sbin/slurmctld", "-V")
    if not re.search(rf" {re.escape(version)}\.", got):
        raise BedError(
            f"{artifact.name}: Debian {suite} now has {got!r}: "
            f"SLURM_SUITES in {cache.__file__} must name a suite with {version}"
        )
    (part / VERSION_FILE).write_text(f"{got} (Debian {suite})\n")


def _image_jobs(progress: Progress) -> list[Job]:
    artifact = cache.image_base()
    if artifact.built:
        return []
    return [(artifact, partial(_build_image_base, debian.mirror(progress), progress))]


def _promtool_jobs(progress: Progress) -> list[Job]:
    artifact = cache.promtool()
    return [] if artifact.built else [(artifact, partial(_get_promtool, progress))]


def _get_promtool(progress: Progress, part: Path) -> None:
    """Take it out of the package of this machine's Debian, without installing that."""
    artifact = cache.promtool()
    debian.mirror(progress)
    with progress.step(artifact.name, "downloading prometheus") as step:
        run_logged(["sh", "-ec", cache.GET_PROMTOOL, "sh", part], artifact.log, step.see)
    (part / VERSION_FILE).write_text(_first_line(part / "promtool", "--version") + "\n")


def _build_image_base(mirror: str, progress: Progress, part: Path) -> None:
    artifact, root = cache.image_base(), part / "root"
    suite = cache.IMAGE_BASE_SUITE
    commands: list[list[str | Path]] = [
        _debootstrap(suite, root, mirror, packages=cache.IMAGE_BASE_PACKAGES),
        ["chroot", root, "sh", "-ec", cache.MAKE_IMAGE_BASE],
        ["tar", "-C", root, "-cf", part / IMAGE_BASE_FILE, "."],
    ]
    with progress.step(artifact.name, f"debootstrap {suite}") as step:
        for argv in commands:
            run_logged(argv, artifact.log, step.see)
    got = _first_line("chroot", root, "python3", "--version")
    (part / VERSION_FILE).write_text(f"{got} (Debian {suite})\n")
    shutil.rmtree(root)


def _debootstrap(suite: str, root: Path, mirror: str, *, packages: str) -> list[str | Path]:
    # In namespaces: a killed build leaves neither mounts nor processes.
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    options = ["--variant=minbase", f"--include={packages}"]
    return [*alone, "debootstrap", *options, suite, root, mirror, DEBOOTSTRAP_SCRIPT]
