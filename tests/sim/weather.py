"""Faults that last or that strike a whole side: outages, restarts, expiry, forgotten history."""

import asyncio
import random

from tests.sim.ends import TokenFile
from tests.sim.wire import Wire
from tests.sim.worlds import Worlds

WEATHER = "weather"


class Weather:
    """Draws what breaks next. `calm` mends everything."""

    def __init__(self, rng: random.Random, wire: Wire, token: TokenFile) -> None:
        self._rng = rng
        self._wire = wire
        self._worlds: Worlds = wire.worlds
        self._token = token
        self._tokens = 0
        share = rng.choice((0.0, 0.4, 1.0))
        self._kinds = [one for one in _KINDS if rng.random() < share]

    def act(self) -> None:
        """Something breaks, or mends."""
        if self._kinds:
            self.do(self._rng.choice(self._kinds))

    def do(self, name: str) -> None:
        """This."""
        history = self._worlds.history
        history.count(f"fault: {name}")
        history.note("weather", name)
        getattr(self, name)()

    def calm(self) -> None:
        """Everything works again."""
        self._wire.outages.clear()
        self._worlds.wall_shift_s = 0.0
        self.slurmctld_up()
        self.renew_token()

    # --- Kubernetes

    def api_server_refuses(self) -> None:
        """Connections are refused, streams break."""
        self._wire.outages["kube"] = "refused"
        self.cut_streams()

    def api_server_silent(self) -> None:
        """Nothing is answered any more, and nobody says so."""
        self._wire.outages["kube"] = "silent"
        for stream in list(self._wire.streams):
            stream.freeze()

    def api_server_back(self) -> None:
        """It answers."""
        self._wire.outages.pop("kube", None)

    def cut_streams(self) -> None:
        """Every watch breaks."""
        for stream in list(self._wire.streams):
            stream.cut()

    def cut_stream(self) -> None:
        """One watch breaks."""
        if self._wire.streams:
            self._rng.choice(self._wire.streams).cut()

    def freeze_stream(self) -> None:
        """One watch brings nothing any more."""
        if self._wire.streams:
            self._rng.choice(self._wire.streams).freeze()

    def compact(self) -> None:
        """410 for whoever comes back with an old version."""
        self._worlds.act(WEATHER, self._worlds.kube.compact)

    def compact_and_cut(self) -> None:
        """And everybody comes back."""
        self.compact()
        self.cut_streams()

    # --- Slurm

    def slurmrestd_refuses(self) -> None:
        """It is dead."""
        self._wire.outages["slurm"] = "refused"

    def slurmrestd_silent(self) -> None:
        """It hangs."""
        self._wire.outages["slurm"] = "silent"

    def slurmrestd_is_a_proxy(self) -> None:
        """A page of HTML."""
        self._wire.outages["slurm"] = "html"

    def slurmrestd_back(self) -> None:
        """It answers."""
        self._wire.outages.pop("slurm", None)

    def slurmctld_down(self) -> None:
        """1800 after nine seconds."""
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        self._worlds.act(WEATHER, lambda: slurm.stop_controller(now_s=now_s))

    def slurmctld_up(self) -> None:
        """With all that it knew."""
        self._start("nothing")

    def slurmctld_lost_seconds(self) -> None:
        """It was killed."""
        self._start("recent")

    def slurmctld_lost_everything(self) -> None:
        """Its state directory is gone."""
        self._start("everything")

    def _start(self, loss: str) -> None:
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        if loss == "nothing" and slurm.controller_up:
            return
        self._worlds.act(WEATHER, lambda: slurm.restart(now_s=now_s, lose_state=loss))  # type: ignore[arg-type]

    def reconfigure(self) -> None:
        """What REST gave falls back to slurm.conf."""
        slurm, now_s = self._worlds.slurm, self._worlds.now_s
        self._worlds.act(WEATHER, lambda: slurm.reconfigure(now_s=now_s))

    def expire_token(self) -> None:
        """The one in use is taken no longer; the file has a new one some time later."""
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
        """The file holds what is taken."""
        if self._tokens:
            self._token.file = f"token-{self._tokens}"

    # --- ourselves

    def wall_clock_jumps(self) -> None:
        """Of our machine."""
        self._worlds.wall_shift_s = self._rng.choice((-86400.0, -3.0, 3600.0, 1e8))


_KINDS = (
    "api_server_refuses", "api_server_silent", "api_server_back", "api_server_back",
    "api_server_back", "cut_streams", "cut_stream", "freeze_stream", "compact", "compact_and_cut",
    "slurmrestd_refuses", "slurmrestd_silent", "slurmrestd_is_a_proxy", "slurmrestd_back",
    "slurmrestd_back", "slurmrestd_back", "slurmctld_down", "slurmctld_up", "slurmctld_up",
    "slurmctld_lost_seconds", "slurmctld_lost_everything", "reconfigure", "expire_token",
    "wall_clock_jumps",
)  # fmt: skip
