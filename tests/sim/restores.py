"""Scenarios of an etcd that is restored from a backup, with or without broken watches."""

from collections.abc import Mapping

from tests.sim.breaking import (
    api_server_back,
    back_up,
    cut_streams,
    delay,
    freeze_streams,
    restore,
    restore_unseen,
    write_much,
)
from tests.sim.doings import CORDONED, add_pod, annotate_pod, cordon, delete_pod, told
from tests.sim.stage import Scenario

RESTORES: Mapping[str, Scenario] = {
    "etcd is restored from a backup": told(
        "F3",
        (0, back_up),
        (1, cordon("k1")),
        (0, delete_pod("n2", grace_s=0)),
        (5, restore),
        (3, api_server_back),
        n1=None,
        n2=None,
    ),
    "etcd is restored while the watches are silent": told(
        "F3",
        (0, back_up),
        (1, cordon("k1")),
        (3, freeze_streams),
        (0, restore_unseen),
        (3, api_server_back),
        (1, write_much),
        (120, write_much),
        n1=None,
    ),
    "a pod that etcd lost is created again": told(
        "F3 S2",
        (1, delete_pod("n2", grace_s=0)),
        (1, back_up),
        (0, add_pod("n2", "k2")),
        (3, write_much),
        (0, annotate_pod("n2", keep_cordon="x")),
        (3, restore),
        (1, api_server_back),
        (9, add_pod("n2", "k2")),
        n2=None,
    ),
    "etcd is restored while the watches are silent, and they break": told(
        "F3",
        (0, back_up),
        (1, cordon("k1")),
        (3, freeze_streams),
        (0, restore_unseen),
        (3, api_server_back),
        (1, write_much),
        (12, cut_streams),
        n1=None,
    ),
    "etcd is restored within a second": told(
        "F3",
        (0, back_up),
        (1, delete_pod("n2", grace_s=0)),
        (0, add_pod("n2", "k2")),
        (9, freeze_streams),
        (0, restore_unseen),
        (0.5, api_server_back),
        (0, write_much),
        (0.5, cut_streams),
        (3, cordon("k2")),
        n2=CORDONED,
    ),
    "an answer from before the restore of etcd is late": told(
        "F3",
        (0, back_up),
        (1, write_much),
        (0, delay("PATCH", "/nodes/k1/status", back_s=9)),
        (0, cordon("k1")),
        (1, restore),
        (1, api_server_back),
        (15, cordon("k1")),
        n1=CORDONED,
    ),
}
