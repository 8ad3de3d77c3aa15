"""What two replicas under election cost, compared with one process without it."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tests.bench.figures import Figure
from tests.bench.running import BenchError
from tests.real.pod_bed import SCHEDULER
from tests.real.service import NAMESPACE, Service, install
from tests.real.stage import eventually
from tests.real.tap import Tap, tapped_kubeconfig
from tests.real.testbed import Bed, SlurmConf, kube_objects
from tests.real.testbed.closing import Closing

HOSTS = 40
PODS = 60
ROUNDS = 2
WATCHED_S = 60.0
SETTLE_S = 15.0
FLIP_EVERY_S = 2.0
POD_EVERY_S = 3.0
STEP_S = 1.0
RARE_PER_S = 0.03
"""Classes of requests that are rarer in every row have no row."""
SLURM_RATIO_MAX = 1.2
FLAGS = {
    "scheduler_name": SCHEDULER,
    "placeholder": "external",
    "termination_offset": "0s",
    "max_drains_per_minute": "1000",
}
"""All intervals are the defaults."""
ELECTS = {"leader_elect": "true"}
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
SLURM_NAME = re.compile(r"/slurm/v[^/]+/(node|job)/(?!submit)[^/]+")
KUBE_NAME = re.compile(r"/(nodes|pods|leases|secrets|jobs|namespaces)/[^/]+")
_numbers = count(1)


class Spent(NamedTuple):
    """What one process asked and used in one window."""

    requests: Mapping[str, float]
    """By class: `slurm GET jobs/state`, `kube PATCH leases`; a second."""
    cpu_s: float
    """A minute."""
    rss_mib: float

    def asked(self, server: str) -> float:
        return sum(rate for name, rate in self.requests.items() if name.startswith(server))


class Process(Closing):
    """A service whose every request to either server is counted."""

    def __init__(self, bed: Bed, **flags: str) -> None:
        self._requests: Counter[str] = Counter()
        self._stack = ExitStack()
        kube, slurm = bed.kube, bed.slurm
        to_kube = Tap(kube.url, self._kube, ca_file=kube.ca_file)
        to_slurm = Tap(slurm.url, self._slurm)
        self._stack.callback(to_slurm.close)
        self._stack.callback(to_kube.close)
        kubeconfig = tapped_kubeconfig(bed, to_kube, f"counted-{next(_numbers)}")
        urls = {"kubeconfig": str(kubeconfig), "slurm_api_base": to_slurm.url}
        self.service = Service(bed, **{**FLAGS, **urls, **flags}).start()
        self._stack.callback(self.service.kill9)
        self._begun = (0.0, 0.0)

    def _kube(self, when: str, method: str, path: str) -> bool:
        if when == "before":
            self._requests[f"kube {method} {kube_class(path)}"] += 1
        return True

    def _slurm(self, when: str, method: str, path: str) -> bool:
        if when == "before":
            self._requests[f"slurmrestd {method} {slurm_class(path)}"] += 1
        return True

    @property
    def leads(self) -> bool:
        return self.service.metric("leader_election_master_status") == 1

    def begin(self) -> None:
        self._requests.clear()
        self._begun = time.monotonic(), cpu_s(self.service.pid)

    def end(self) -> Spent:
        begun_s, used_s = self._begun
        spent_s = time.monotonic() - begun_s
        return Spent(
            requests={name: times / spent_s for name, times in self._requests.items()},
            cpu_s=(cpu_s(self.service.pid) - used_s) / spent_s * 60,
            rss_mib=rss_mib(self.service.pid),
        )

    def close(self) -> None:
        self._stack.close()


def kube_class(path: str) -> str:
    """Return the resource without names: `nodes/status` of `/api/v1/nodes/n1/status`."""
    within = re.sub(r"^/apis?(/[^/.]+\.[^/]+|/apps|/batch)?/v\w+/", "/", path)
    within = re.sub(r"^/namespaces/[^/]+(?=/)", "", within)
    return KUBE_NAME.sub(r"/\1", within).strip("/")


def slurm_class(path: str) -> str:
    """Return the path without version and names: `node` of `/slurm/v0.0.45/node/n1`."""
    return re.sub(r"^/slurm/v[^/]+/", "", SLURM_NAME.sub(r"\1", path)).strip("/")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise BenchError("no VmRSS in /proc")


class Load:
    """A host is cordoned or freed every two seconds, a Pod replaced every three."""

    def __init__(self, bed: Bed) -> None:
        self._kube = bed.kube
        self._hosts = bed.slurm.conf.external_names
        self._flips = count()
        self._pods = count(1)
        self._living: list[str] = []
        for _ in range(PODS):
            self._add()

    def _add(self) -> None:
        name = f"work-{next(self._pods)}"
        resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
        spec = {
            "schedulerName": SCHEDULER,
            "containers": [kube_objects.CONTAINER | {"resources": resources}],
            "terminationGracePeriodSeconds": 1,
        }
        self._kube.create(kube_objects.pod(name, namespace=NAMESPACE, spec=spec))
        self._living.append(name)

    def all_bound(self) -> bool:
        items = self._kube.rest.call("GET", PODS_PATH)["items"]
        ours = [one for one in items if one["spec"].get("schedulerName") == SCHEDULER]
        return sum("nodeName" in one["spec"] for one in ours) >= PODS

    def apply(self, for_s: float) -> None:
        """One act at a time, at fixed seconds."""
        begun_s = time.monotonic()
        for second in range(int(for_s / STEP_S)):
            time.sleep(max(0.0, begun_s + second * STEP_S - time.monotonic()))
            if second % FLIP_EVERY_S == 0:
                turn, place = divmod(next(self._flips), 2)
                host = self._hosts[turn % len(self._hosts)]
                self._kube.cordon(host, unschedulable=place == 0)
            if second % POD_EVERY_S == 0:
                self._kube.delete_pod(self._living.pop(0), NAMESPACE)
                self._add()
        time.sleep(max(0.0, begun_s + for_s - time.monotonic()))


Rows = dict[tuple[str, str], list[Spent]]
"""Phase and process → its windows."""


def replicas() -> Iterator[Figure]:
    """Watch 40 hosts and 60 Pods: one process without election, two replicas with it, in turns."""
    conf = SlurmConf(slurmds=1, external_nodes=HOSTS - 1, extra_lines=("MinJobAge=30",))
    rows: Rows = defaultdict(list)
    with Bed.start(conf=conf) as bed:
        install(bed)
        load = Load(bed)
        for _ in range(ROUNDS):
            with running(bed, load, {}) as alone:
                _watch(rows, load, {"one process": alone[0]})
            with running(bed, load, ELECTS, ELECTS) as pair:
                leader, standby = sorted(pair, key=lambda one: not one.leads)
                _watch(rows, load, {"the leader": leader, "the standby": standby})
                if not leader.leads or standby.leads:
                    raise BenchError("the leader changed while it was measured")
    for phase in ("at rest", "under load"):
        yield from _figures(phase, rows)


@contextmanager
def running(bed: Bed, load: Load, *flags: Mapping[str, str]) -> Iterator[list[Process]]:
    """Start one process for each flags; wait until all are ready, one writes, and all is quiet."""
    with ExitStack() as stack:
        made = [stack.enter_context(Process(bed, **one)) for one in flags]
        for one in made:
            one.service.wait_ready()
        if len(made) > 1:
            eventually(lambda: sum(one.leads for one in made) == 1, "one leads")
        eventually(load.all_bound, "all Pods bound", within_s=120)
        for one in made:
            one.service.settle(quiet_s=3)
        time.sleep(SETTLE_S)
        yield made


def _watch(rows: Rows, load: Load, processes: Mapping[str, Process]) -> None:
    for phase, work in (("at rest", time.sleep), ("under load", load.apply)):
        for one in processes.values():
            one.begin()
        work(WATCHED_S)
        for name, one in processes.items():
            rows[phase, name].append(one.end())
        time.sleep(SETTLE_S)


def _figures(phase: str, rows: Rows) -> Iterator[Figure]:
    one, leader, standby = (
        _mean(rows[phase, name]) for name in ("one process", "the leader", "the standby")
    )
    both = Spent(
        requests=_sum([leader.requests, standby.requests]),
        cpu_s=leader.cpu_s + standby.cpu_s,
        rss_mib=leader.rss_mib + standby.rss_mib,
    )
    named = {"one process": one, "the leader": leader, "the standby": standby, "both": both}
    for name, spent in named.items():
        yield Figure(f"{phase}, {name}: requests to slurmrestd", spent.asked("slurmrestd"), "1/s")
        yield Figure(f"{phase}, {name}: requests to the API server", spent.asked("kube"), "1/s")
        yield Figure(f"{phase}, {name}: CPU in a minute", spent.cpu_s, "s")
        yield Figure(f"{phase}, {name}: RSS", spent.rss_mib, "MiB")
    for kind in sorted(one.requests.keys() | both.requests.keys()):
        if max(one.requests.get(kind, 0.0), both.requests.get(kind, 0.0)) < RARE_PER_S:
            continue
        for name, spent in named.items():
            if rate := spent.requests.get(kind):
                yield Figure(f"{phase}, {name}: {kind}", rate, "1/s")
    ratio = both.asked("slurmrestd") / one.asked("slurmrestd")
    yield Figure(f"{phase}, requests to slurmrestd, two of one", ratio, "x", SLURM_RATIO_MAX)
    yield Figure(f"{phase}, CPU, two of one", both.cpu_s / one.cpu_s, "x")


def _mean(windows: Sequence[Spent]) -> Spent:
    total = _sum([one.requests for one in windows])
    return Spent(
        requests={kind: rate / len(windows) for kind, rate in total.items()},
        cpu_s=mean(one.cpu_s for one in windows),
        rss_mib=mean(one.rss_mib for one in windows),
    )


def _sum(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    kinds = {kind for one in rates for kind in one}
    return {kind: sum(one.get(kind, 0.0) for one in rates) for kind in kinds}
