"""Faults that last, or that concern a whole server: outages, restarts, expiry, compaction."""

import asyncio
import random

from tests.sim.ends import TokenFile
from tests.sim.wire import Wire
from tests.sim.worlds import Worlds

OUTAGE = "outage"


class Outages:
    def __init__(self, rng: random.Random, wire: Wire, token: TokenFile) -> None:
        self._rng = rng
        self._wire = wire
        self._worlds: Worlds = wire.worlds
        self._token = token
        self._tokens = 0
        share = rng.choice((0.0, 0.4, 1.0))
        self._kinds = [one for one in _KINDS if rng.random() < share]

    def act(self) -> None:
        if self._kinds:
            self.do(self._rng.choice(self._kinds))

    def do(self, name: str) -> None:
        history = self._worlds.history
        history.count(f"fault: {name}")
        history.note("outage", name)
        getattr(self, name)()

    def calm(self) -> None:
        self._wire.outages.clear()
        self._worlds.wall_shift_s = 0.0
        self.slurmctld_up()
        self.renew_token()

    def api_server_refuses(self) -> None:
        """Refuse connections, and break all streams."""
        self._wire.outages["kube"] = "refused"
        self.cut_streams()

    def api_server_silent(self) -> None:
        """Answer nothing, and keep the connections open."""
        self._wire.outages["kube"] = "silent"
        for stream in list(self._wire.streams):
            stream.freeze()

    def api_server_back(self) -> None:
        self._wire.outages.pop("kube", None)

    def cut_streams(self) -> None:
        for stream in list(self._wire.streams):
            stream.cut()

    def cut_stream(self) -> None:
        if self._wire.streams:
            self._rng.choice(self._wire.streams).cut()

    def freeze_stream(self) -> None:
        if self._wire.streams:
            self._rng.choice(self._wire.streams).freeze()

    def compact(self) -> None:
        """Compact the history: clients with an old version get 410."""
        self._worlds.act(OUTAGE, self._worlds.kube.compact)

    def compact_and_cut(self) -> None:
        self.compact()
        self.cut_streams()

    def slurmrestd_refuses(self) -> None:
        self._wire.outages["slurm"] = "refused"

    def slurmrestd_silent(self) -> None:
        self._wire.outages["slurm"] = "silent"

    def slurmrestd_is_a_proxy(self) -> None:
        self._wire.outages["slurm"] = "html"

    def slurmrestd_back(self) -> None:
        self._wire.outages.pop("slurm", None)

    def slurmctld_down(self) -> None:
        """Stop slurmctld. slurmrestd answers 1800 after nine seconds."""
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        self._worlds.act(OUTAGE, lambda: slurm.stop_controller(now_s=now_s))

    def slurmctld_up(self) -> None:
        self._start("nothing")

    def slurmctld_lost_seconds(self) -> None:
        """Start slurmctld as after SIGKILL."""
        self._start("recent")

    def slurmctld_lost_everything(self) -> None:
        self._start("everything")

    def _start(self, loss: str) -> None:
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        if loss == "nothing" and slurm.controller_up:
            return
        self._worlds.act(OUTAGE, lambda: slurm.restart(now_s=now_s, lose_state=loss))  # type: ignore[arg-type]

    def reconfigure(self) -> None:
        """Reconfigure slurmctld: fields that REST set get the values of slurm.conf."""
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        self._worlds.act(OUTAGE, lambda: slurm.reconfigure(now_s=now_s))

    def expire_token(self) -> None:
        """Revoke the token in use. The file gets a new one later."""
        self._tokens += 1
        self._worlds.tokens.revoke(self._token.file)
        new = f"token-{self._tokens}"
        self._worlds.tokens.add(new)
        later_s = self._rng.choice((0.0, 3.0, 20.0, 70.0))
        asyncio.get_running_loop().call_later(later_s, self._renew, new)

    def _renew(self, new: str) -> None:
        if self._tokens and new == f"token-{self._tokens}":
            self._token.file = new

    def renew_token(self) -> None:
        if self._tokens:
            self._token.file = f"token-{self._tokens}"

    def wall_clock_jumps(self) -> None:
        self._worlds.wall_shift_s = self._rng.choice((-86400.0, -3.0, 3600.0, 1e8))


_KINDS = (
    "api_server_refuses", "api_server_silent", "api_server_back", "api_server_back",
    "api_server_back", "cut_streams", "cut_stream", "freeze_stream", "compact", "compact_and_cut",
    "slurmrestd_refuses", "slurmrestd_silent", "slurmrestd_is_a_proxy", "slurmrestd_back",
    "slurmrestd_back", "slurmrestd_back", "slurmctld_down", "slurmctld_up", "slurmctld_up",
    "slurmctld_lost_seconds", "slurmctld_lost_everything", "reconfigure", "expire_token",
    "wall_clock_jumps",
)  # fmt: skip
