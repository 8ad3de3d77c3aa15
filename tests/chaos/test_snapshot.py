"""A comparison of two moments names what came, went and changed."""

from tests.chaos.snapshot import differences

JOB = {"job_state": ["RUNNING"], "nodes": "n1"}


def test_what_came_went_or_changed_is_named() -> None:
    assert differences({"job 1": JOB}, {"job 1": dict(JOB)}) == []
    assert differences({"job 1": JOB}, {}) == ["job 1 is gone"]
    assert differences({}, {"job 1": JOB}) == ["job 1 is new"]
    (changed,) = differences({"job 1": JOB}, {"job 1": {**JOB, "nodes": "n2"}})
    assert changed == "job 1: nodes was n1, is n2"
