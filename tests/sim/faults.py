"""Faults of one call or one stream, drawn from the seed. Each fault is on or off in a run."""

import random
from typing import Literal

import msgspec
from msgspec import Struct

from sunk_sync.embedded.wire import Answer

Side = Literal["kube", "slurm"]
Loss = Literal["", "request", "answer"]
NAMES = (
    "lost requests",
    "lost answers",
    "silence",
    "late requests",
    "late answers",
    "slow calls",
    "half answers",
    "refusals",
    "broken streams",
    "silent streams",
    "duplicates",
    "reordered events",
    "late events",
)
SHARES = (0.01, 0.04, 0.15)
SLURM_BUSY = msgspec.json.encode(
    {"errors": [{"error_number": -1, "error": "Unspecified error"}], "meta": {}}
)
HTML = b"<html><body>502 Bad Gateway</body></html>"


class Journey(Struct, frozen=True, kw_only=True):
    """The course of one call, with the seconds that the request and the answer take."""

    out_s: float
    back_s: float
    loss: Loss = ""
    silent: bool = False
    """After a loss the connection stays open: the caller waits until its deadline."""
    half: bool = False
    instead: Answer | None = None
    """A proxy sends this answer. The server does not get the request."""
    words: str = ""


class Faults:
    """Draws faults. Without `rng` there are none, and the latency is constant."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng
        self.shares: dict[str, float] = {}
        """Fault → probability, without the faults that are off."""
        self.small_pages = False
        self.streams_lists = True
        if rng is not None:
            on = 0.0 if rng.random() < 0.1 else rng.choice((0.15, 0.35, 0.6))
            self.shares = {name: rng.choice(SHARES) for name in NAMES if rng.random() < on}
            self.small_pages = rng.random() < 0.3
            self.streams_lists = rng.random() < 0.7

    def stop(self) -> None:
        self.shares = {}

    def happens(self, name: str) -> bool:
        share = self.shares.get(name)
        return share is not None and self._rng is not None and self._rng.random() < share

    def journey(self, side: Side) -> Journey:
        rng = self._rng
        if rng is None:
            return Journey(out_s=0.001, back_s=0.001)
        out_s, back_s = rng.uniform(0.0003, 0.003), rng.uniform(0.0003, 0.003)
        if not self.shares:
            return Journey(out_s=out_s, back_s=back_s)
        words = []
        if self.happens("slow calls"):
            out_s, back_s = out_s + rng.uniform(0, 1.5), back_s + rng.uniform(0, 1.5)
            words.append("slow")
        if self.happens("late requests"):
            out_s += rng.choice((3.0, 12.0, 25.0)) * rng.random()
            words.append("late request")
        if self.happens("late answers"):
            back_s += rng.choice((3.0, 12.0, 25.0)) * rng.random()
            words.append("late answer")
        return self._broken(side, words, out_s=out_s, back_s=back_s)

    def _broken(self, side: Side, words: list[str], *, out_s: float, back_s: float) -> Journey:
        loss: Loss = ""
        if self.happens("lost requests"):
            loss = "request"
        elif self.happens("lost answers"):
            loss = "answer"
        silent = bool(loss) and self.happens("silence")
        half = not loss and self.happens("half answers")
        instead = self._refusal(side) if not loss and self.happens("refusals") else None
        words += [f"lost {loss}"] if loss else []
        words += [name for name, on in (("silence", silent), ("half", half)) if on]
        words += [f"refused {instead.status}"] if instead else []
        return Journey(
            out_s=out_s,
            back_s=back_s,
            loss=loss,
            silent=silent,
            half=half,
            instead=instead,
            words=", ".join(words),
        )

    def _refusal(self, side: Side) -> Answer:
        assert self._rng is not None
        html = Answer(status=502, body=HTML, content_type="text/html")
        if side == "slurm":
            return self._rng.choice(
                (html, Answer(status=500, body=SLURM_BUSY), Answer(body=SLURM_BUSY))
            )
        seconds = self._rng.choice(("1", "2", "7"))
        later = Answer(status=429, body=b"Too many requests", headers={"Retry-After": seconds})
        return self._rng.choice((html, later, Answer(status=500, body=b"")))

    def event_delay_s(self) -> float:
        if self._rng is None:
            return 0.001
        late = self.happens("late events")
        return self._rng.uniform(0.0, 8.0) if late else self._rng.uniform(0.0003, 0.003)

    def disturb(self, lines: list[bytes]) -> list[bytes]:
        """Duplicate an event of one piece of a stream, or reorder the events of the piece."""
        if not self.shares or self._rng is None or any(b'"type":"ERROR"' in one for one in lines):
            return lines
        lines = list(lines)
        if self.happens("duplicates"):
            again = self._rng.choice(lines)
            if b'"type":"BOOKMARK"' not in again:
                lines.insert(self._rng.randrange(len(lines) + 1), again)
        if self.happens("reordered events"):
            self._shuffle(lines)
        return lines

    def _shuffle(self, lines: list[bytes]) -> None:
        """Reorder the lines of a piece without bookmarks: these follow the events before them."""
        assert self._rng is not None
        places = [place for place, line in enumerate(lines) if b'"BOOKMARK"' not in line[:20]]
        if len(places) == len(lines):
            self._rng.shuffle(lines)
