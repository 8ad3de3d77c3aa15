"""Errors of slurmrestd instead of a job, and how a real Slurm gives each of them.

`test_pending.py` plays them and reads the numbers back. docs/pending.md lists them as seen, because
that test reads them back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.real.job_submit_lua import PLUGIN, write_job_submit
from tests.real.slurm_jobs import (
    ALICE,
    BOTH,
    EXTRA_LINES,
    NEW,
    OLD,
    SLEEP,
    Fields,
    Jobs,
    Scenes,
    described,
    number,
    versions_by,
)
from tests.real.testbed import RestError
from tests.real.testbed.rest import Rest

Asked = Iterable[tuple[int, Callable[[], Any]]]


@dataclass(frozen=True)
class Refusal:
    """A request and the number of Slurm's error.

    With `path` it is another request with the fields as its body.
    """

    number: int
    what: str
    fields: Fields
    versions: tuple[str, ...] = BOTH
    kind: str = "submit"
    path: str = ""

    def play(self, jobs: Jobs) -> None:
        """Send the request, which raises RestError."""
        if self.path:
            jobs.call(self.kind, self.path, self.fields)
        elif self.kind == "allocate":
            jobs.allocate(**self.fields)
        else:
            jobs.submit(**self.fields)


def _at_once(number: int, what: str, **fields: Any) -> Refusal:
    return Refusal(number, f"at once: {what}", fields, kind="allocate")


def _cancel(number: int, what: str, *ids: str) -> Refusal:
    return Refusal(number, f"cancel: {what}", {"jobs": ids}, kind="DELETE", path="jobs/")


_LARGE = number(10**6)
SUBMISSIONS = (
    Refusal(2000, "an unknown partition", {"partition": "nope"}),
    Refusal(2002, "a partition that requires a reservation", {"partition": "reserved"}),
    Refusal(2006, "0 nodes", {"nodes": "0"}),
    Refusal(2010, "an impossible user", {"user_id": "4294967294", "group_id": "1"}, NEW),
    Refusal(2165, "an impossible user", {"user_id": "4294967294", "group_id": "1"}, OLD),
    Refusal(2012, "a name of 1,025 characters", {"name": "x" * 1025}),
    Refusal(2014, "too much memory", {"memory_per_node": _LARGE}),
    Refusal(2014, "too many GPUs", {"tres_per_node": "gres/gpu:99"}),
    Refusal(2014, "GPUs of an unknown type", {"tres_per_node": "gres/gpu:h100:1"}),
    Refusal(2014, "a node of another partition", {"partition": "one", "required_nodes": ["n2"]}),
    Refusal(2014, "all nodes excluded", {"excluded_nodes": ["n[1-3]"]}),
    Refusal(2014, "too many CPUs for its partition", {"partition": "tight", "cpus_per_task": 8}),
    Refusal(2014, "too many nodes", {"nodes": "99"}, OLD),
    Refusal(2014, "too many CPUs", {"cpus_per_task": 999}, OLD),
    Refusal(2018, "an unknown required node", {"required_nodes": ["nope"]}),
    Refusal(2018, "an unknown excluded node", {"excluded_nodes": ["nope"]}),
    Refusal(2019, "no environment", {"environment": []}, OLD),
    Refusal(2127, "no environment", {"environment": []}, NEW),
    Refusal(2029, "an unknown feature", {"constraints": "nope"}),
    Refusal(2029, "an incomplete expression", {"constraints": "[a&"}),
    Refusal(2038, "after an unknown job", {"dependency": "afterok:99999"}),
    Refusal(2048, "an unknown licence", {"licenses": "nope:1"}),
    Refusal(2048, "more licences than there are", {"licenses": "matlab:5"}),
    Refusal(2051, "a deadline before its end", {"deadline": 1}),
    Refusal(2053, "an unknown reservation", {"reservation": "nope"}),
    Refusal(2063, "no working directory", {"current_working_directory": ""}),
    Refusal(2070, "a drained partition", {"partition": "drained"}),
    Refusal(2070, "an inactive partition", {"partition": "inactive"}),
    Refusal(2072, "an unknown generic resource", {"tres_per_node": "gres/foo:1"}),
    Refusal(2081, "too large an array", {"array": "0-99"}),
    Refusal(2112, "X11", {"x11": ["FORWARD_ALL_NODES"]}),
    Refusal(2114, "features of the first node alone", {"batch_features": "nope"}),
    Refusal(2115, "an unknown resource", {"tres_per_node": "gpu:2"}),
    Refusal(2123, "a nice value out of bounds", {"nice": 2**31 - 1}),
    Refusal(2124, "a least time over its limit", {"time_minimum": number(100)}),
    Refusal(2133, "an unknown preferred feature", {"prefer": "nope"}),
    Refusal(2164, "an unknown group name", {"group_id": "nope"}, NEW),
    Refusal(2166, "an unknown user name", {"user_id": "nope", "group_id": "1"}),
    Refusal(2189, "an external job with a script", {"flags": ["EXTERNAL_JOB"]}, NEW),
    Refusal(9000, "no script", {"script": ""}),
    Refusal(9202, "a number of nodes that is no number", {"nodes": "abc"}),
    Refusal(9207, "an unknown flag", {"flags": ["NOPE"]}),
)
OTHER_CALLS = (
    _at_once(2014, "too much memory", memory_per_node=_LARGE),
    _at_once(2038, "held", hold=True),
    _at_once(2101, "a partition that is down", partition="off"),
    Refusal(2015, "at once: too many nodes", {"nodes": "9"}, NEW, "allocate"),
    Refusal(2014, "at once: too many nodes", {"nodes": "9"}, OLD, "allocate"),
    Refusal(2017, "update: an unknown job", {"name": "x"}, kind="POST", path="job/99999"),
    _cancel(2136, "an empty id", ""),
    _cancel(2137, "an id that is no number", "x"),
    _cancel(2138, "a negative id", "-1"),
    _cancel(2144, "a task that is no number", "3_x"),
    Refusal(2173, "cancel: no job at all", {}, kind="DELETE", path="jobs/"),
    Refusal(9209, "submit: no object", {"job": 5}, kind="POST", path="job/submit"),
)
REFUSALS = (*SUBMISSIONS, *OTHER_CALLS)


DENIALS = Scenes()
"""Requests that are refused in a certain state of the cluster."""


@DENIALS.add(2013, 2016)
def nodes_in_use(jobs: Jobs) -> Asked:
    jobs.allocate(nodes="3", tasks=3, shared=["none"])
    yield 2016, lambda: jobs.allocate(nodes="1")
    jobs.submit(nodes="3")
    yield 2013, lambda: jobs.allocate(nodes="3")


@DENIALS.add(2068)
def required_node_drained(jobs: Jobs) -> Asked:
    jobs.slurm.scontrol("update", "nodename=n3", "state=drain", "reason=x")
    yield 2068, lambda: jobs.allocate(required_nodes=["n3"])


@DENIALS.add(2052)
def reservation_of_others(jobs: Jobs) -> Asked:
    jobs.reserve("others", "StartTime=now", "Nodes=n2", "Users=daemon")
    yield 2052, lambda: jobs.submit(reservation="others", **ALICE)


@DENIALS.add(2010, 2038, 2042, 2071, 2084)
def updates(jobs: Jobs) -> Asked:
    one, ended = jobs.submit(hold=True), jobs.submit(script="#!/bin/sh\nexit 0\n")
    two = jobs.submit(hold=True, dependency=f"afterok:{one}")
    yield 2010, lambda: jobs.update(one, user_id="1001")
    yield 2038, lambda: jobs.update(one, dependency=f"afterok:{one}")
    yield 2071, lambda: jobs.update(one, dependency=f"afterok:{two}")
    jobs.update(one, hold=True)
    yield 2042, lambda: jobs.update(one, priority=number(7))
    jobs.until(lambda: jobs.ended(ended), "a job has ended")
    yield 2084, lambda: jobs.update(ended, name="x")


@DENIALS.add(1007, 2002)
def tokens(jobs: Jobs) -> Asked:
    slurm = jobs.slurm

    def as_user(token: str, **fields: Any) -> None:
        rest = Rest(slurm.url, headers={"X-SLURM-USER-TOKEN": token})
        rest.call("POST", slurm.path("job/submit"), {"script": SLEEP, **described(fields)})

    yield 1007, lambda: as_user("no.token.atall")
    yield 2002, lambda: as_user(slurm.token(user="daemon"), admin_comment="x")


@DENIALS.add(2003, 2005, 2006, 2015, 2044, 2051)
def limits_enforced(jobs: Jobs) -> Asked:
    jobs.reconfigure(*EXTRA_LINES, "EnforcePartLimits=ALL")
    yield 2003, lambda: jobs.submit(partition="members", **ALICE)
    yield 2005, lambda: jobs.submit(cpus_per_task=999)
    yield 2005, lambda: jobs.submit(nodes="99")
    yield 2006, lambda: jobs.submit(partition="small", nodes="2")
    yield 2015, lambda: jobs.submit(partition="root", **ALICE)
    yield 2044, lambda: jobs.submit(partition="tight", memory_per_node=number(2000))
    yield 2051, lambda: jobs.submit(partition="short", time_limit=number(60))


@DENIALS.add(2125)
def deferred(jobs: Jobs) -> Asked:
    jobs.reconfigure("SchedulerParameters=defer")
    yield 2125, jobs.allocate


@DENIALS.add(11, versions=OLD)
def too_many_jobs_for_24_11(jobs: Jobs) -> Asked:
    """24.11 has no number of its own for this and answers EAGAIN."""
    yield from _too_many(jobs, 11)


@DENIALS.add(2007, versions=NEW)
def too_many_jobs(jobs: Jobs) -> Asked:
    yield from _too_many(jobs, 2007)


def _too_many(jobs: Jobs, number: int) -> Asked:
    jobs.reconfigure("MaxJobCount=2")
    for _ in range(2):
        try:
            jobs.submit(hold=True)
        except RestError:
            break
    yield number, lambda: jobs.submit(hold=True)


@DENIALS.add(-1)
def site_refuses_without_a_number(jobs: Jobs) -> Asked:
    """Neither version passes on what job_submit.lua says to the user."""
    waits = jobs.submit(hold=True)
    write_job_submit(jobs.slurm.root, submit="slurm.ERROR", modify="slurm.ERROR")
    jobs.reconfigure(*EXTRA_LINES, PLUGIN)
    yield -1, jobs.submit
    yield -1, jobs.allocate
    yield -1, lambda: jobs.update(waits, comment="x")


@DENIALS.add(7405, versions=NEW)
def script_of_the_site_fails(jobs: Jobs) -> Asked:
    """24.11 accepts the job then."""
    write_job_submit(jobs.slurm.root, submit="description.nothing.more")
    jobs.reconfigure(*EXTRA_LINES, PLUGIN)
    yield 7405, jobs.submit


@DENIALS.add(1800)
def controller_down(jobs: Jobs) -> Asked:
    """The response takes 9 or 10 seconds."""
    jobs.slurm.stop_slurmctld()
    yield 1800, jobs.submit


def seen_errors() -> Mapping[int, frozenset[str]]:
    """Return the versions in which each error number was read."""
    return versions_by([*((one.number, one.versions) for one in REFUSALS), *DENIALS.versions()])
