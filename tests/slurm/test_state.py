"""States and reasons of a Slurm node, as sunk-sync reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunk_sync.core.model.facts import SlurmNode
from sunk_sync.core.model.names import REASON_LENGTH_MAX
from sunk_sync.core.translate.node_states import (
    BASE_STATES,
    FLAGS,
    is_busy,
    is_drained,
    is_foreign_drain,
    is_frozen,
    is_ours,
    keeps_drain,
    sanitise_reason,
)

SPELLINGS = """
    INVALID UNKNOWN DOWN IDLE ALLOCATED ERROR MIXED FUTURE EXTERNAL RESERVED UNDRAIN CLOUD RESUME
    DRAIN COMPLETING NOT_RESPONDING POWERED_DOWN FAIL POWERING_UP MAINTENANCE REBOOT_REQUESTED
    REBOOT_CANCELED POWERING_DOWN DYNAMIC_FUTURE REBOOT_ISSUED PLANNED INVALID_REG POWER_DOWN
    POWER_UP POWER_DRAIN POWER_DOWN_ASAP POWER_DOWN_FORCE DYNAMIC_NORM BLOCKED
""".split()  # noqa: SIM905
"""The enumeration of the OpenAPI documents v0.0.40 to v0.0.45."""

SILENT = {"EXTERNAL", "CLOUD", "RESUME", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "BLOCKED"}
"""Not conditions of a Pod: kinds of nodes, and words that only updates use."""


def test_every_state_that_slurm_can_spell_is_known_M1() -> None:
    known = set(BASE_STATES) | set(FLAGS)
    assert set(SPELLINGS) - known == SILENT | {"REBOOT_CANCELED"}
    assert known <= set(SPELLINGS)


def test_the_suffixes_of_conditions_are_those_of_SUNK_and_some_more_M1() -> None:
    assert " ".join(BASE_STATES.values()) == "Allocated Down Error Future Idle Mixed Unknown"
    suffixes = """Completing Drain Fail Invalid InvalidReg Maintenance NotResponding Undrain
        Reserved Planned PowerDown PoweringUp RebootRequested""".split()  # noqa: SIM905
    assert set(FLAGS.values()) == set(suffixes)


@pytest.mark.parametrize("state", SPELLINGS)
def test_frozen_states_are_frozen_with_any_other_flag_S13(state: str) -> None:
    frozen = state in {
        *("DOWN", "ERROR", "FAIL", "FUTURE", "UNKNOWN", "INVALID", "INVALID_REG"),
        *("POWERED_DOWN", "POWERING_DOWN"),
    } or state.startswith("REBOOT_")
    assert is_frozen(frozenset({state})) is frozen
    assert is_frozen(frozenset({"IDLE", state, "NOT_RESPONDING"})) is frozen


@pytest.mark.parametrize("state", SPELLINGS)
def test_a_drain_is_kept_in_a_frozen_state_but_without_power_or_before_a_reboot_S13(
    state: str,
) -> None:
    drainable = {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_REQUESTED"}
    flags = frozenset({"IDLE", state})
    assert keeps_drain(flags) is (is_frozen(flags) and state not in drainable)
    assert keeps_drain(flags | {"DRAIN"}) is (keeps_drain(flags) or state == "REBOOT_REQUESTED")


@pytest.mark.parametrize(
    ("state", "reason", "ours", "foreign"),
    [
        ({"IDLE", "DRAIN"}, "k8s: node cordoned", True, False),
        ({"IDLE", "DRAIN"}, "bad disk", False, True),
        ({"IDLE", "DRAIN"}, "", False, True),
        ({"IDLE", "DRAIN"}, "lifted, was k8s: x", False, True),
        ({"IDLE"}, "k8s: node cordoned", False, False),
        ({"IDLE"}, "", False, False),
    ],
)
def test_a_drain_is_ours_only_by_flag_and_text_together_S12_S15(
    state: set[str], reason: str, *, ours: bool, foreign: bool
) -> None:
    node = SlurmNode(name="n1", state=frozenset(state), reason=reason)
    assert (is_ours(node), is_foreign_drain(node)) == (ours, foreign)


def test_busy_means_that_jobs_are_there_S6() -> None:
    assert [s for s in SPELLINGS if is_busy(frozenset({s}))] == ["ALLOCATED", "MIXED", "COMPLETING"]
    assert is_drained(frozenset({"MIXED", "DRAIN"}))
    assert not is_drained(frozenset({"IDLE", "POWER_DRAIN"}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("k8s: node cordoned", "k8s: node cordoned"),
        ("  k8s: a\r\n\tb\x00c\x1b[31m  ", "k8s: a b c [31m"),
        ('k8s: "quoted" a=b, #123 c:\\d', "k8s: 'quoted' a=b, 123 c:/d"),
        ("k8s: größer als 5 µm", "k8s: größer als 5 µm"),
        ("k8s: a\u2028b\u202ec\ufeffd", "k8s: a b c d"),
        ("k8s: \ud800", "k8s:"),
        ("", ""),
    ],
)
def test_reasons_are_one_readable_line_S17(text: str, reason: str) -> None:
    assert sanitise_reason(text) == reason


def test_reasons_are_cut_after_256_characters_S17() -> None:
    assert sanitise_reason("k8s: " + "ü" * 300) == "k8s: " + "ü" * 251
    assert sanitise_reason("x" * 255 + " y") == "x" * 255


@given(st.text())
def test_sanitising_any_text_twice_changes_nothing_more_S17(text: str) -> None:
    reason = sanitise_reason(text)
    assert sanitise_reason(reason) == reason
    assert len(reason) <= REASON_LENGTH_MAX
    assert not set(reason) & set('"#\\\n\r\t')
    assert reason.encode().decode() == reason == reason.strip()
