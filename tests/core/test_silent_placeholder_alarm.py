"""Placeholders that run and were never heard at the hooks server (L6): which they are."""

from msgspec.structs import replace

from sunk_sync.core.alarms import PATIENCE_S, SilentPlaceholders
from sunk_sync.core.model.facts import Job, JobNotice
from tests.kit.build import Core, job, listing, pod, room


class Watched:
    """A core with a Pod and the samples taken of it."""

    def __init__(self, *jobs: Job) -> None:
        self.core = Core(*room(), pod(), *jobs)
        self.unheard = SilentPlaceholders()
        self.sampled()

    def sampled(self) -> list[str]:
        """Ids of jobs unheard by now."""
        return [one.job_id for one in self.unheard.sample(self.core.graph, now=self.core.now)]

    def after(self, seconds: float) -> list[str]:
        """The same, seen again so much later."""
        self.sampled()
        self.core.wait(seconds)
        return self.sampled()


def running(**fields: object) -> Job:
    """Its script wrote to `extra` that it started."""
    return job(pod(), state="RUNNING", **{"slurm_nodes": ("n1",), "submitted_at": 5, **fields})


def test_a_script_that_runs_on_without_a_word_is_unheard_L6() -> None:
    """Not before: it tries again while we restart."""
    watched = Watched()
    watched.core.see(running())
    assert not watched.after(PATIENCE_S - 1)
    assert watched.after(1) == ["7"]


def test_a_script_that_was_heard_is_never_unheard_L6() -> None:
    """Its word comes before or after its `extra` is read."""
    watched = Watched()
    watched.core.see(running(started=False))
    watched.core.see(JobNotice("7", "started", watched.core.now), running())
    assert not watched.after(PATIENCE_S)


def test_a_late_word_or_the_end_of_the_job_takes_it_out_L6() -> None:
    """And a job that comes after it has its own patience."""
    for news in (JobNotice("7", "started", 1100.0), job(pod(), state="COMPLETED", submitted_at=5)):
        watched = Watched()
        watched.core.see(running())
        assert watched.after(PATIENCE_S) == ["7"]
        watched.core.see(news)
        assert not watched.sampled()


def test_jobs_from_before_this_process_are_not_asked_about_L6() -> None:
    """Whoever ran before us may have heard them."""
    watched = Watched(running())
    assert not watched.after(PATIENCE_S)
    watched.core.see(running(job_id="8", submitted_at=6))
    assert watched.after(PATIENCE_S) == ["8"]


def test_which_jobs_were_there_before_is_known_once_they_were_listed_L6() -> None:
    """A sample before that takes none for new."""
    watched = Watched()
    watched.core = Core(listed=False)
    watched.unheard = SilentPlaceholders()
    watched.sampled()
    watched.core.see(*listing("jobs", running()))
    assert not watched.after(PATIENCE_S)


def test_only_scripts_that_run_and_have_started_are_asked_about_L6() -> None:
    """An allocation has none; what waits at the gate, or never began, has another clock."""
    prolog = frozenset({"RUNNING", "CONFIGURING"})
    for fields in ({"script": False}, {"started": False}, {"state": prolog}):
        watched = Watched()
        watched.core.see(replace(running(), **fields))
        assert not watched.after(PATIENCE_S)
