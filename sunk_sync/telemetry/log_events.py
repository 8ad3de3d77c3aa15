"""Every log event of sunk-sync, one row each: the field `event` of a line, its levels and fields.

`tools/reference.py` makes the table of the reference from it. A test compares each row with the
calls that log. Each one that can be a warning or an error has an entry in docs/troubleshooting.md.
"""

from typing import Final, Literal, NamedTuple

Level = Literal["debug", "info", "warning", "error"]


class LogEvent(NamedTuple):
    name: str
    levels: tuple[Level, ...]
    """Ascending."""
    fields: tuple[str, ...]
    """Besides `timestamp`, `level` and `event`. A field without a value may be missing."""
    text: str


LOG_EVENTS: Final = (
    LogEvent(
        "write",
        ("debug", "info", "warning"),
        ("action", "outcome", "because", "seconds", "why", "same_since_last_told", "…"),
        "A write was answered: `done`; `refused` or `unsure` with `why` are warnings, but `debug`"
        " if the object was deleted meanwhile. More fields name the object.",
    ),
    LogEvent(
        "read",
        ("debug", "warning"),
        ("action", "outcome", "because", "seconds", "why", "same_since_last_told", "…"),
        "A read of single objects or a new listing was answered.",
    ),
    LogEvent(
        "not written",
        ("debug", "info"),
        ("action", "why", "because", "…"),
        "A write is held back, logged once; `info` in a dry run.",
    ),
    LogEvent(
        "request",
        ("debug",),
        ("host", "method", "path", "status", "seconds", "bytes"),
        "Kubernetes or slurmrestd answered a request.",
    ),
    LogEvent(
        "hook call", ("debug",), ("call", "outcome", "peer"), "The hooks server answered a call."
    ),
    LogEvent(
        "hook call refused: no valid token",
        ("warning",),
        ("call", "job", "peer", "swallowed"),
        "The token belongs to another hooks key, or the caller is unknown; once a minute.",
    ),
    LogEvent(
        "a job starts beside Pods that still terminate: its gate waited for --busy-max",
        ("warning",),
        ("call", "job", "peer", "swallowed"),
        "The gate let a job pass at its limit.",
    ),
    LogEvent(
        "a job starts on a Node without the lock",
        ("warning",),
        ("call", "job", "peer", "swallowed"),
        "Event `NodeNotLocked` or `NodeLockLate` says why.",
    ),
    LogEvent(
        "jobs run beside Pods that still terminate",
        ("warning",),
        ("hosts",),
        "A job runs on a host where a Pod of an ended job still lives.",
    ),
    LogEvent(
        "no job runs beside a Pod that still terminates",
        ("info",),
        ("seconds",),
        "That is over; `seconds` is the sum since the start.",
    ),
    LogEvent("starting", ("info",), ("version",), "The process has read its settings."),
    LogEvent(
        "metrics server open",
        ("info",),
        ("metrics", "health"),
        "The addresses of /metrics and of the probes.",
    ),
    LogEvent(
        "hooks server open",
        ("info",),
        ("address", "url"),
        "`url` is where slurmctld and the compute nodes must reach it.",
    ),
    LogEvent(
        "operators server open",
        ("info",),
        ("address",),
        "`explain`, `diff`, `status` and `pause` ask there.",
    ),
    LogEvent("kubernetes", ("info",), ("address",), "The address of the API server."),
    LogEvent(
        "schedules pods",
        ("info",),
        ("scheduler_name", "namespaces"),
        "Pods with this `schedulerName` in these namespaces get jobs.",
    ),
    LogEvent("dry run: sunk-sync writes nothing", ("warning",), (), "`--dry-run` is set."),
    LogEvent(
        "these settings have no effect yet",
        ("warning",),
        ("settings",),
        "These flags are accepted and do nothing.",
    ),
    LogEvent(
        "cannot reach Kubernetes",
        ("error",),
        ("why",),
        "There is no usable kubeconfig or ServiceAccount. The process ends with code 2.",
    ),
    LogEvent(
        "waiting for Kubernetes",
        ("warning",),
        ("address", "why"),
        "The API server does not answer yet, or refuses the credentials; once for each `why`.",
    ),
    LogEvent(
        "--hooks-key-file cannot be used",
        ("error",),
        ("why",),
        "The file with the hooks key is missing or wrong. The process ends with code 2.",
    ),
    LogEvent("hooks key", ("info",), ("secret",), "The Secret that keeps the hooks key."),
    LogEvent(
        "hooks key is not kept",
        ("warning",),
        ("secret", "why", "then", "cure"),
        "The tokens of placeholders and of the gate end with this process.",
    ),
    LogEvent(
        "cannot read slurm.conf: KillWait and MessageTimeout are settings or defaults",
        ("info",),
        ("why",),
        "Usual with Slurm 24.11, which does not tell them.",
    ),
    LogEvent(
        "kill wait differs",
        ("warning",),
        ("why", "cure"),
        "`--slurm-kill-wait` is not Slurm's KillWait.",
    ),
    LogEvent(
        "slurm token read",
        ("info", "warning"),
        ("expires_at", "left_seconds"),
        "A JWT was read; a warning if it ends within ten minutes.",
    ),
    LogEvent(
        "stands by for the Lease",
        ("info",),
        ("lease", "identity"),
        "This replica takes part in the election.",
    ),
    LogEvent("stands by", ("info",), ("leader", "address"), "Another replica leads."),
    LogEvent("became leader", ("info",), ("lease", "identity"), "This replica holds the Lease."),
    LogEvent("writes from now on", ("info",), (), "The new leader has listed both sides again."),
    LogEvent(
        "released the Lease",
        ("info",),
        ("lease",),
        "The leader stops; another replica leads at once.",
    ),
    LogEvent(
        "cannot release the Lease: it expires",
        ("warning",),
        ("why",),
        "The leader stops; another replica leads when the Lease has expired.",
    ),
    LogEvent(
        "the Lease cannot be used",
        ("warning",),
        ("lease", "why"),
        "The Lease cannot be read or written.",
    ),
    LogEvent(
        "lost the Lease: this process ends",
        ("error",),
        ("lease", "why"),
        "The leader could not renew the Lease in time.",
    ),
    LogEvent(
        "source listed", ("info",), ("source", "seconds"), "A source was listed for the first time."
    ),
    LogEvent(
        "source lost",
        ("warning",),
        ("source", "why"),
        "A listing or watch fails. While a source is lost, no drain is lifted.",
    ),
    LogEvent("source still lost", ("debug",), ("source", "why"), "It fails with another error."),
    LogEvent(
        "source cannot be read for a long time",
        ("error",),
        ("source", "why"),
        "It has failed for a minute. The conditions of Nodes are Unknown.",
    ),
    LogEvent(
        "source back",
        ("info",),
        ("source", "lost_for_seconds", "was"),
        "A lost source was read again.",
    ),
    LogEvent(
        "ignoring an object that cannot be read",
        ("warning",),
        ("kind", "name", "why"),
        "An object has a form that sunk-sync does not know.",
    ),
    LogEvent(
        "drains held", ("warning",), ("count", "cure"), "`--max-drains-per-minute` is reached."
    ),
    LogEvent("drains released", ("info",), ("held_before",), "No drain is held any more."),
    LogEvent(
        "deletions of Pods held",
        ("warning",),
        ("workloads", "cure"),
        "`--max-pod-ends-per-minute` is reached.",
    ),
    LogEvent(
        "deletions of Pods released",
        ("info",),
        ("held_before",),
        "No end of a Pod is held any more.",
    ),
    LogEvent(
        "paused: nothing is written", ("warning",), ("why", "cure"), "An operator paused sunk-sync."
    ),
    LogEvent("resumed", ("info",), (), "The pause has ended."),
    LogEvent(
        "conflicting claims",
        ("info", "warning"),
        ("slurm_nodes", "before"),
        "Several objects claim this many Slurm nodes; a warning if there are more than before.",
    ),
    LogEvent(
        "jobs not cancelled: sunk-sync cannot read their Pods",
        ("info", "warning"),
        ("jobs", "first", "cure"),
        "Jobs stay, because their Pods cannot be read. Further ones are logged as `info`.",
    ),
    LogEvent(
        "sunk-sync can read the Pods of all jobs again",
        ("info",),
        ("kept_before",),
        "No job stays for that reason.",
    ),
    LogEvent(
        "jobs look like ours, but nothing proves it",
        ("warning",),
        ("jobs", "first", "cure"),
        "These jobs live, and have only a name or a command line like those of sunk-sync.",
    ),
    LogEvent(
        "no job without a proof is left",
        ("info",),
        ("unproven_before",),
        "All of them ended, or are known by now.",
    ),
    LogEvent(
        "somebody overwrote the admin_comment of our jobs",
        ("info", "warning"),
        ("jobs", "first", "cure"),
        "The jobs are still known. Further ones are logged as `info`.",
    ),
    LogEvent(
        "placeholders run, but never called the hooks server",
        ("warning",),
        ("jobs", "first", "cure"),
        "No call of these scripts arrived within half a minute.",
    ),
    LogEvent(
        "all running placeholders have called the hooks server",
        ("info",),
        ("unheard_before",),
        "That is over.",
    ),
    LogEvent(
        "the file of --user-policy is wrong",
        ("error",),
        ("why", "more", "cure"),
        "The last good version applies.",
    ),
    LogEvent(
        "the file of --user-policy is right again", ("info",), (), "The latest version applies."
    ),
    LogEvent(
        "user policy applies",
        ("info",),
        ("namespaces", "users_alone"),
        "`users_alone`: namespaces that are restricted in users, and in nothing else.",
    ),
    LogEvent(
        "slow step",
        ("warning",),
        ("seconds", "keys", "news"),
        "A step of the loop took more than 0.1 s.",
    ),
    LogEvent(
        "rule failed",
        ("error",),
        ("key", "rule", "exception"),
        "A defect in sunk-sync. The named object is left alone until it changes.",
    ),
    LogEvent(
        "audit surprise",
        ("error",),
        ("key", "standing", "fresh"),
        "A defect in sunk-sync: a decision was out of date. It is corrected.",
    ),
    LogEvent(
        "metrics stopped until a restart",
        ("error",),
        ("metrics", "exception"),
        "A defect in sunk-sync. Everything else goes on.",
    ),
    LogEvent("traces pods", ("info",), ("endpoint", "share"), "Traces are on."),
    LogEvent(
        "traces cannot start",
        ("error",),
        ("why",),
        "A variable `OTEL_…` has a wrong value. sunk-sync runs without traces.",
    ),
    LogEvent(
        "traces are lost",
        ("warning",),
        ("endpoint", "why", "spans_dropped"),
        "The collector takes no spans; once a minute.",
    ),
    LogEvent("the collector takes traces again", ("info",), ("endpoint",), "Spans arrive again."),
    LogEvent(
        "traces are lost at the end",
        ("warning",),
        ("spans", "waited_s"),
        "The last spans were not sent in time at SIGTERM.",
    ),
    LogEvent(
        "traces stopped until a restart",
        ("error",),
        ("exception",),
        "A defect in sunk-sync. Everything else goes on.",
    ),
    LogEvent(
        "stopping", ("info",), ("in_flight",), "SIGTERM arrived; writes in flight are awaited."
    ),
    LogEvent("stopped", ("info",), (), "The last line."),
)
