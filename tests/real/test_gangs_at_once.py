"""G1, G3, G4: a member of a gang is deleted at the moment of its binding.

A proxy in front of the API server deletes it when its binding passes, so that the server refuses
the binding.
"""

import threading
from collections.abc import Iterator

import pytest

from tests.real.conftest import check_health, for_each_slurm
from tests.real.pod_bed import PodBed, pod_bed, pod_conf
from tests.real.service import NAMESPACE, Service
from tests.real.stage import stays
from tests.real.tap import Tap, tapped_kubeconfig

SIZE = 3

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


class Ambush:
    """Deletes one Pod when a binding passes: `when` before it is forwarded, or after."""

    def __init__(self, bed: PodBed) -> None:
        self.bed = bed
        self.victim, self.at, self.when = "", "", ""
        self.struck = threading.Event()

    def set(self, victim: str, *, at: str, when: str) -> None:
        self.victim, self.at, self.when = victim, at, when
        self.struck.clear()

    def hook(self, when: str, method: str, path: str) -> bool:
        wanted = method == "POST" and path.endswith(f"/pods/{self.at}/binding")
        if wanted and when == self.when and not self.struck.is_set():
            self.struck.set()
            self.bed.delete_pod(self.victim, grace_s=0)
        return True


bed = for_each_slurm(lambda version: pod_bed(version, pod_conf(SIZE)))


@pytest.fixture(scope="module")
def ambush(bed: PodBed) -> Ambush:
    return Ambush(bed)


@pytest.fixture(scope="module")
def service(bed: PodBed, ambush: Ambush) -> Iterator[Service]:
    """The service behind the proxy; at its end it must have had no error."""
    kube = bed.bed.kube
    with Tap(kube.url, ambush.hook, ca_file=kube.ca_file) as tap:
        flags = {"kubeconfig": str(tapped_kubeconfig(bed.bed, tap))}
        with bed.service(gate=False, **flags) as made:
            yield made
            check_health(made, since=0)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", ["own", "another's"])
def test_a_member_deleted_during_the_binding_ends_the_whole_gang_G4(
    bed: PodBed, ambush: Ambush, when: str, at: str
) -> None:
    gang = f"g{when}{'own' if at == 'own' else 'other'}"
    names = [f"{gang}-{number}" for number in range(SIZE)]
    victim = names[1]
    ambush.set(victim, at=victim if at == "own" else names[0], when=when)
    for name in names:
        bed.make_pod(name, gang=gang, gang_size=str(SIZE))
    bed.until(ambush.struck.is_set, "the member is deleted")
    bed.until(lambda: settled(bed, names), "none of the gang is placed", within_s=40)
    assert stays(lambda: settled(bed, names), for_s=2)
    made = [job for name in names for job in bed.placeholders(name)]
    placed = {name: bed.host_of(name) for name in names if bed.pod(name)}
    bed.say(f"{victim} deleted {when} {at} binding: jobs {[one['job_state'] for one in made]}")
    bed.say(f"left of it: {placed}")
    assert len(made) == 1
    bed.clear()


def settled(bed: PodBed, names: list[str]) -> bool:
    """Whether no member holds a host and none of their jobs lives."""
    placed = [name for name in names if bed.host_of(name)]
    return not placed and not any(bed.live(name) for name in names)


@pytest.mark.usefixtures("service")
def test_without_a_deletion_all_are_bound_G1(bed: PodBed, ambush: Ambush) -> None:
    """The control for the test above."""
    ambush.set("", at="", when="")
    names = [f"whole-{number}" for number in range(SIZE)]
    for name in names:
        bed.make_pod(name, gang="whole", gang_size=str(SIZE))
    bed.until_bound(*names)
    assert len({bed.host_of(name) for name in names}) == SIZE
    assert len([job for name in names for job in bed.live(name)]) == 1
    bed.bed.kube.delete_pod(names[0], NAMESPACE)
    bed.until(lambda: not bed.ours() and settled(bed, names), "all end with one (G3)")
