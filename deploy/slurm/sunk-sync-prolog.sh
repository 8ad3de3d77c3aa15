#!/bin/sh
# The gate: no job starts on a host where a Pod of an ended placeholder still lives.
#
#   PrologSlurmctld=/etc/slurm/sunk-sync/sunk-sync-prolog.sh
#
# Asks sunk-sync and waits for its word; exit 0: the job starts. It ends always: see --busy,
# --busy-max and --silent. Used as Prolog (on the node) it never exits non-zero, for that would
# drain the node. It needs a POSIX shell and one of curl, bash (http only) or python3.
#
# Arguments win over the file sunk-sync.conf beside this script (or $SUNK_SYNC_HOOKS_CONF), which
# has lines `name = value` with the names of the arguments without dashes:
#   --url URL            of the hooks door: http://sunk-sync.slurm.svc:8000
#   --token-file FILE    token of the gate; readable for SlurmUser (as Prolog: root) alone
#   --busy 90s           told to wait for so long: requeue the job if sunk-sync says it can be
#   --busy-max 10m       told to wait for so long: start it all the same (sunk-sync counts that)
#   --silent 60s=pass    no answer for so long: `pass` starts the job, `requeue` sends it back
#   --check              ask whether address and token are right, and end
set -u
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
url= token_file= busy=90s busy_max=10m silent=60s=pass check=

# --- common to the scripts: begin
say() {
    printf 'sunk-sync: %s\n' "$*" >&2
    if [ -S /dev/log ] && command -v logger >/dev/null; then
        logger -t sunk-sync -- "$*" || :
    fi
}

# Monotonic seconds.
now() {
    if read -r up _ </proc/uptime; then echo "${up%%.*}"; else date +%s; fi
} 2>/dev/null

# call METHOD PATH BODY SECONDS: sets `status` (empty: no answer) and `answer` (one line).
call() {
    answer=$(send "$@" 2>/dev/null) || answer=
    status=${answer%% *}
    answer=${answer#"$status"}
    answer=${answer# }
}

# The token goes by standard input: arguments can be read by everybody on the machine.
send() {
    if command -v curl >/dev/null; then
        printf 'header = "Authorization: Bearer %s"\n' "$token" | with_curl "$@"
    elif command -v bash >/dev/null && [ "${url#http:}" != "$url" ]; then
        request "$@" | with_bash "$4"
    elif command -v python3 >/dev/null; then
        printf '%s\n' "$token" | with_python "$@"
    else
        say "there is none of curl, bash (for http) and python3"
        return 1
    fi
}

with_curl() {
    told=$(curl -s -K - -X "$1" --data-binary "$3" --connect-timeout 3 -m "$4" \
        -H 'Content-Type: application/json' -H 'Expect:' --noproxy '*' --max-filesize 65536 \
        -w '%{http_code}' "$url$2") || return 1
    printf '%s %s' "${told##*[!0-9]}" "${told%%
*}"
}

request() {
    printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\n' \
        "$1" "$2" "$place" "$token"
    printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#3}" "$3"
}

with_bash() {
    timeout "$1" bash -c '
        exec 3<>"/dev/tcp/$1/$2" && cat >&3 || exit
        read -r _ status _ <&3 || exit
        while read -r line <&3 && [ "${line%$'"'\r'"'}" ]; do :; done
        read -r -n 65536 body <&3
        printf "%s %s" "$status" "$body"' - "$host" "$port"
}

with_python() {
    python3 -c '
import sys, urllib.error, urllib.request as r
method, address, body, seconds = sys.argv[1:]
asked = r.Request(address, body.encode() or None, method=method)
asked.add_header("Authorization", "Bearer " + sys.stdin.readline().strip())
asked.add_header("Content-Type", "application/json")
opener = r.build_opener(r.ProxyHandler({}))
try:
    told = opener.open(asked, timeout=float(seconds))
except urllib.error.HTTPError as error:
    told = error
line = told.read(65536).decode(errors="replace").split("\n")[0]
print(told.status, line, end="")' "$1" "$url$2" "$3" "$4"
}

# `http://host:8000` in parts, for those who cannot read a URL.
parse_url() {
    url=${url%/}
    place=${url#*://}
    host=${place%:*} port=${place##*:}
    if [ "$host" = "$place" ]; then port=80; fi
    host=${host#\[} host=${host%\]}
}
# --- common to the scripts: end

# read_conf FILE: lines `name = value`; nothing in it is run.
read_conf() {
    while IFS= read -r line || [ "$line" ]; do
        line=$(printf '%s' "$line" | tr -d ' \t\r"')
        case $line in
            '' | '#'*) ;;
            url=*) url=${line#*=} ;;
            token-file=*) token_file=${line#*=} ;;
            busy=*) busy=${line#*=} ;;
            busy-max=*) busy_max=${line#*=} ;;
            silent=*) silent=${line#*=} ;;
            *) say "$1: not understood: $line" ;;
        esac
    done <"$1"
}

# seconds TEXT DEFAULT: 90, 90s or 10m as seconds; what cannot be read is the default, and said.
seconds() {
    number=${1%[sm]}
    case $number in
        '' | *[!0-9]* | ???????*) say "not understood: $1; taken as $2 s"; echo "$2"; return ;;
    esac
    case $1 in *m) echo $((number * 60)) ;; *) echo $((number)) ;; esac
}

configure() {
    conf=${SUNK_SYNC_HOOKS_CONF:-${0%/*}/sunk-sync.conf}
    if [ -r "$conf" ]; then read_conf "$conf"; fi
    while [ $# -gt 0 ]; do
        case $1 in
            --url) url=${2-} ;;
            --token-file) token_file=${2-} ;;
            --busy) busy=${2-} ;;
            --busy-max) busy_max=${2-} ;;
            --silent) silent=${2-} ;;
            --check) check=1; shift; continue ;;
            *) say "not understood: $1" ;;
        esac
        shift
        if [ $# -gt 0 ]; then shift; fi
    done
    busy_s=$(seconds "$busy" 90) busy_max_s=$(seconds "$busy_max" 600)
    silent_s=$(seconds "${silent%%=*}" 60)
    if [ "$busy_s" -gt "$busy_max_s" ]; then busy_s=$busy_max_s; fi
    token=
    if [ -r "$token_file" ]; then read -r token <"$token_file" || :; fi
    if [ -z "$url" ] || [ -z "$token" ]; then say "no --url, or no token in --token-file"; fi
    parse_url
}

# Requeue, where a non-zero exit does that and nothing worse.
send_back() {
    case ${SLURM_SCRIPT_CONTEXT:-} in
        prolog_slurmctld) say "job $job: $1: requeued"; exit 1 ;;
    esac
    say "job $job: $1: as Prolog of a node it passes"
    exit 0
}

give_up_silent() {
    case ${silent#*=} in
        requeue) send_back "no answer for $silent_s s" ;;
    esac
    say "job $job: no answer for $silent_s s: it starts unchecked"
    exit 0
}

# Sets `ends` (second until which the next call may wait) and `after` (what comes then).
# A call is given up in time to keep --silent, so it may not wait for longer than that.
next_call() {
    if [ "$1" -lt "$busy_end" ]; then
        ends=$busy_end after=requeue
    else
        ends=$busy_max_end after=pass
    fi
    margin=$((silent_s > 20 ? 5 : silent_s / 5 + 1))
    longest=$((heard + silent_s - $1 - margin))
    if [ "$longest" -lt 1 ]; then longest=1; fi
    if [ $((ends - $1)) -gt "$longest" ]; then
        ends=$(($1 + longest)) after=ask
    fi
}

# One call; ends the script where the answer says so.
ask() {
    next_call "$1"
    left=$((ends - $1 > 0 ? ends - $1 : 1))
    body="{\"job_id\":\"$job\",\"nodes\":\"$nodes\",\"deadline_s\":$left,\"then\":\"$after\"}"
    call POST /v1/gate "$body" $((left + margin))
    case $status$answer in
        200*'"action":"go"'*) exit 0 ;;
        200*'"action":"requeue"'*)
            if [ "$after" = requeue ]; then send_back "busy for $busy_s s: $answer"; fi ;;
        200*'"action":"wait"'*) ;;
        *) return 1 ;;
    esac
    heard=$(now)
    if [ "$heard" -lt "$ends" ]; then sleep 1; fi
}

wait_for_leave() {
    case ${SLURM_SCRIPT_CONTEXT:-} in
        prolog_slurmctld) ;;
        *) busy_s=0 ;; # it could not requeue: it waits for --busy-max
    esac
    begun=$(now) heard=$begun said=
    busy_end=$((begun + busy_s)) busy_max_end=$((begun + busy_max_s))
    while at=$(now); do
        if [ "$at" -ge $busy_max_end ]; then
            say "job $job: busy for $busy_max_s s: it starts all the same: $answer"
            exit 0
        fi
        if [ $((at - heard)) -ge "$silent_s" ]; then give_up_silent; fi
        if ask "$at"; then continue; fi
        if [ -z "$said" ]; then say "job $job: no word from $url: ${status:-no answer} $answer"; fi
        said=1
        sleep 1
    done
}

configure "$@"
if [ "$check" ]; then
    call GET /v1/health '' 5
    echo "${status:-no answer} $answer"
    [ "$status" = 200 ]
    exit
fi
job=${SLURM_JOB_ID:-0}
if [ "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}; fi
nodes=${SLURM_JOB_NODELIST:-${SLURMD_NODENAME:-}}
case ${SLURM_SCRIPT_CONTEXT:-} in prolog_slurmd) nodes=${SLURMD_NODENAME:-$nodes} ;; esac
status= answer=
wait_for_leave
