"""Leader election: of several replicas, only the holder of the Lease writes (F6, decision 31).

Only durations on the own monotonic clock count, never the times that a Lease names. The holder may
write until a margin before `duration_s` after it sent its last renewal. Others take the Lease when
it did not change for `duration_s` since they first read it so: that is always later.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sunk_sync.kube.api.answers import KubeError
from sunk_sync.kube.api.backoff import Ambient
from sunk_sync.kube.write.lease import (
    LeaseClaim,
    LeaseState,
    LeaseStore,
    is_other_version,
)
from sunk_sync.service.fence import Fence

DURATION_S: Final = 6.0
DURATION_MAX_S: Final = 60.0
RELEASE_TRIES: Final = 3


class ElectionTiming(Struct, frozen=True):
    """All times follow from the duration of the Lease."""

    duration_s: float = DURATION_S

    @property
    def margin_s(self) -> float:
        """The holder stops writing so long before others may take the Lease."""
        return self.duration_s / 6

    @property
    def renew_every_s(self) -> float:
        return self.duration_s / 6

    @property
    def look_every_s(self) -> float:
        """A standby reads the Lease so often, and takes a released one then."""
        return self.duration_s / 20

    @property
    def gap_s(self) -> float:
        """After a longer gap between two reads another replica may have come and gone."""
        return self.duration_s

    @property
    def try_s(self) -> float:
        """Deadline of one call. A slow API server gets time, a lost packet leaves a second try."""
        return self.duration_s / 2


class ElectionState(Struct, frozen=True):
    """What this replica last learned."""

    leader: str = ""
    """Identity of the holder; empty: nobody."""
    address: str = ""
    """host:port of the holder's hooks server."""
    trouble: str = ""
    """Why the Lease could not be read or written last time."""
    paused: str = ""
    """Its annotation paused."""


class _Seen(Struct, frozen=True):
    """A Lease that did not change since a second, in reads without a long gap."""

    lease: LeaseState
    since_s: float
    read_s: float


NEVER: Final = float("-inf")
_NOTHING: Final = LeaseState()


class Elector:
    """Wait with `acquire`, then keep the Lease with `hold`; at the end call `release`."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        fence: Fence,
        timing: ElectionTiming,
        ambient: Ambient,
    ) -> None:
        """`identity` is unique to this process; `ambient.clock` is the clock of the fence."""
        self.address = ""
        """host:port of the own hooks server, for the other replicas."""
        self.leads = False
        self.state = ElectionState()
        self.on_change: Callable[[], None] = lambda: None
        """Called when the state is another one."""
        self._store = store
        self._identity = identity
        self._fence = fence
        self._timing = timing
        self._ambient = ambient
        self._seen: _Seen | None = None
        self._alive = ("", NEVER)
        """The last holder that was read, and when."""
        self._patience_s = timing.duration_s
        """The longest duration that any holder has named: how long one may believe in a Lease."""
        self._claimed_until_s = NEVER
        """Until then a Lease that names this replica can only be of its own last attempt."""
        self._lease = _NOTHING
        """The Lease as this replica wrote it last."""
        self._conflict = False
        """The last write failed because the Lease was another one."""

    async def acquire(self) -> None:
        """Return when this replica leads."""
        while not await self._try_to_acquire():
            await self._pause(self._timing.look_every_s)

    async def hold(self) -> str:
        """Renew the Lease; return why it was lost. The fence is closed then."""
        why = ""
        while not why:
            await self._pause(min(self._timing.renew_every_s, max(0.0, self._fence.left_s())))
            why = await self._renew()
        self._fence.close()
        self.leads = False
        return why

    def saw_paused(self, text: str) -> None:
        """Note the annotation that the own process has set."""
        self._say(paused=text)

    async def release(self) -> KubeError | None:
        """Stop writing and give the Lease back; no effect if this replica does not lead."""
        self._fence.close()
        if not self.leads:
            return None
        self.leads = False
        failure = await self._give_back()
        for _ in range(RELEASE_TRIES - 1):
            if failure is None or not is_other_version(failure):
                break
            again = await self._read_again(self._timing.try_s)
            if again:
                return KubeError(kind="answer", why=again)
            failure = await self._give_back()
        return failure

    async def _give_back(self) -> KubeError | None:
        answer = await self._store.release(
            self._identity, self._lease, deadline_s=self._timing.try_s
        )
        return answer if isinstance(answer, KubeError) else None

    async def _try_to_acquire(self) -> bool:
        lease = await self._store.read(deadline_s=self._timing.try_s)
        if isinstance(lease, KubeError):
            self._say(trouble=lease.why)
            return False
        self._note(lease, self._ambient.clock())
        if not lease.version:
            await self._create()
            return False
        return self._is_free(lease) and await self._claim(lease, self._timing.try_s)

    async def _create(self) -> None:
        """Create a Lease without a holder, to wait for it as for any other.

        A missing one has no version: nobody could tell whether it is still the same absence.
        """
        answer = await self._store.create(deadline_s=self._timing.try_s)
        if isinstance(answer, KubeError) and not is_other_version(answer):
            self._say(trouble=answer.why)

    def _is_free(self, lease: LeaseState) -> bool:
        """Whether nobody can believe in holding this Lease."""
        now = self._ambient.clock()
        if lease.holder == self._identity and now < self._claimed_until_s:
            return True  # the answer to our own attempt was lost
        if self._is_released(lease, now):
            return True
        return self._seen is not None and now - self._seen.since_s >= self._patience_s

    def _is_released(self, lease: LeaseState, now: float) -> bool:
        """Whether its last holder gave it back.

        An emptied Lease, or an old one from a backup, is no proof: the holder may live. So this
        replica must have read that very holder in the Lease just before.
        """
        holder, read_s = self._alive
        if lease.holder or not lease.released_by or lease.released_by != holder:
            return False
        return now - read_s < self._timing.duration_s

    def _note(self, lease: LeaseState, now: float) -> None:
        seen = self._seen
        same = seen is not None and seen.lease == lease and now - seen.read_s <= self._timing.gap_s
        self._seen = _Seen(lease, seen.since_s if seen and same else now, now)
        if lease.holder:
            self._alive = (lease.holder, now)
        self._patience_s = max(self._patience_s, min(lease.duration_s, DURATION_MAX_S))
        self._say_leader(lease)

    def _say_leader(self, lease: LeaseState) -> None:
        self._say(leader=lease.holder, address=lease.address, trouble="", paused=lease.paused)

    def _say(self, **fields: str) -> None:
        state = replace(self.state, **fields)
        if state != self.state:
            self.state = state
            self.on_change()

    async def _claim(self, before: LeaseState, deadline_s: float) -> bool:
        """Write the Lease. It counts from before the request was sent."""
        begun_s = self._ambient.clock()
        if before.holder != self._identity:
            self._claimed_until_s = begun_s + self._timing.duration_s
        claim = LeaseClaim(
            holder=self._identity,
            duration_s=self._timing.duration_s,
            address=self.address,
            at=self._ambient.wall_clock(),
        )
        lease = await self._store.claim(claim, before, deadline_s=deadline_s)
        if isinstance(lease, KubeError):
            self._conflict = is_other_version(lease)
            if self._conflict:
                self._claimed_until_s = NEVER
            self._say(trouble=lease.why)
            return False
        self._lease = lease
        self._fence.open_until(begun_s + self._timing.duration_s - self._timing.margin_s)
        self.leads = self._fence.left_s() > 0
        self._say_leader(lease)
        return self.leads

    async def _renew(self) -> str:
        """Renew once; return why the Lease is lost, or nothing."""
        left_s = self._fence.left_s()
        if left_s <= 0:
            return f"not renewed in time: {self.state.trouble or 'this process was stopped'}"
        self._conflict = False
        if await self._claim(self._lease, min(left_s, self._timing.try_s)) or not self._conflict:
            return ""
        left_s = self._fence.left_s()
        return await self._read_again(min(left_s, self._timing.try_s)) if left_s > 0 else ""

    async def _read_again(self, deadline_s: float) -> str:
        """Read a Lease that somebody changed; return a text if it has another holder.

        While the fence is open no other replica can hold it rightly. If it was emptied or deleted,
        this replica writes it again.
        """
        lease = await self._store.read(deadline_s=deadline_s)
        if isinstance(lease, KubeError):
            self._say(trouble=lease.why)
            return ""
        if lease.holder not in ("", self._identity):
            self._say_leader(lease)
            return f"{lease.holder} holds the Lease"
        self._say(paused=lease.paused)
        self._lease = lease
        return ""

    async def _pause(self, seconds: float) -> None:
        await self._ambient.sleep(seconds * (0.9 + 0.1 * self._ambient.random()))
