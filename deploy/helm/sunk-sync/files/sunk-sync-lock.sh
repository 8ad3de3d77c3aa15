#!/bin/sh
# The node lock: before a job starts, Pods that do not belong there leave its Nodes.
#
#   Prolog=/etc/slurm/sunk-sync/sunk-sync-lock.sh          with PrologFlags=Alloc
#
# The script runs as Prolog of each node of the job. It asks sunk-sync for the lock of its Node and
# waits for the answer. It always exits 0, because another code drains the node and holds the job:
# only --unlocked drain asks for that. It needs a POSIX shell and one of curl, bash (http only) or
# python3. Slurm can hand it to the nodes itself (configless: Prolog=sunk-sync-lock.sh).
#
# Settings come from sunk-sync.conf beside this script, else from /etc/slurm/sunk-sync (or from
# $SUNK_SYNC_HOOKS_CONF). It has lines `name = value`. Arguments take precedence:
#   --url URL               URL of the hooks API: http://sunk-sync.slurm.svc:8000
#   --token-file FILE       token of the lock; only root may read it
#   --level auto            auto (strict for placeholder jobs), plain or strict
#   --silent 20s            after this time without an answer: start the job
#   --max 10m               after this time in any case: start the job
#   --unlocked start        start: the job starts without the lock; drain: exit 1, which drains the
#                           node and holds the job
# In the file their names begin with lock-: lock-silent = 20s. Only url has no prefix.
#   --check                 test URL and token, and exit
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
url= token_file= level=auto silent=20s max=10m unlocked=start check=

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

# Pass the token on standard input: every user of the machine can read arguments.
send() {
    if command -v curl >/dev/null; then
        printf 'header = "Authorization: Bearer %s"\n' "$token" | with_curl "$@"
    elif command -v bash >/dev/null && [ "${url#http:}" != "$url" ]; then
        request "$@" | with_bash "$4"
    elif command -v python3 >/dev/null; then
        printf '%s\n' "$token" | with_python "$@"
    else
        say "curl, bash (for http) or python3 is needed, and none is installed"
        return 1
    fi
}

# Run a program so that no variable, file of a home or file of this directory changes what it does:
# this script may be root's, and a user may have chosen its directory.
clean() {
    env -i PATH="$PATH" "$@"
}

with_curl() {
    reply=$(clean curl -q -s -K - -X "$1" --data-binary "$3" --connect-timeout 3 -m "$4" \
        -H 'Content-Type: application/json' -H 'Expect:' --noproxy '*' --max-filesize 1048576 \
        -w '%{http_code}' "$url$2") || return 1
    printf '%s %s' "${reply##*[!0-9]}" "${reply%%
*}"
}

request() {
    printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\n' \
        "$1" "$2" "$authority" "$token"
    printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#3}" "$3"
}

with_bash() {
    clean timeout "$1" bash -c '
        exec 3<>"/dev/tcp/$1/$2" && cat >&3 || exit
        read -r _ status _ <&3 || exit
        while read -r line <&3 && [ "${line%$'"'\r'"'}" ]; do :; done
        read -r -n 1048576 body <&3
        printf "%s %s" "$status" "$body"' - "$host" "$port"
}

with_python() {
    clean python3 -I -c '
import sys, urllib.error, urllib.request as r
method, address, body, seconds = sys.argv[1:]
request = r.Request(address, body.encode() or None, method=method)
request.add_header("Authorization", "Bearer " + sys.stdin.readline().strip())
request.add_header("Content-Type", "application/json")
opener = r.build_opener(r.ProxyHandler({}))
try:
    response = opener.open(request, timeout=float(seconds))
except urllib.error.HTTPError as error:
    response = error
line = response.read(1048576).decode(errors="replace").split("\n")[0]
print(response.status, line, end="")' "$1" "$url$2" "$3" "$4"
}

# Split `http://host:8000`, for clients that need host and port.
parse_url() {
    url=${url%/}
    authority=${url#*://}
    host=${authority%:*} port=${authority##*:}
    if [ "$host" = "$authority" ]; then port=80; fi
    host=${host#\[} host=${host%\]}
}
# --- common to the scripts: end

# read_conf FILE: lines `name = value`; none of it is executed. The scripts of the gate have others.
read_conf() {
    while IFS= read -r line || [ "$line" ]; do
        line=$(printf '%s' "$line" | tr -d ' \t\r"')
        case $line in
            url=*) url=${line#*=} ;;
            lock-token-file=*) token_file=${line#*=} ;;
            lock-level=*) level=${line#*=} ;;
            lock-silent=*) silent=${line#*=} ;;
            lock-max=*) max=${line#*=} ;;
            lock-unlocked=*) unlocked=${line#*=} ;;
            lock-*) say "$1: unknown setting: $line" ;;
        esac
    done <"$1"
}

# seconds TEXT DEFAULT: 90, 90s or 10m in seconds; for an invalid text the default, with a message.
seconds() {
    number=${1%[sm]}
    case $number in
        '' | *[!0-9]* | ???????*) say "invalid duration: $1; using $2 s"; echo "$2"; return ;;
    esac
    case $1 in *m) echo $((number * 60)) ;; *) echo $((number)) ;; esac
}

configure() {
    conf=${SUNK_SYNC_HOOKS_CONF:-${0%/*}/sunk-sync.conf}
    if [ ! -r "$conf" ]; then conf=/etc/slurm/sunk-sync/sunk-sync.conf; fi
    if [ -r "$conf" ]; then read_conf "$conf"; fi
    while [ $# -gt 0 ]; do
        case $1 in
            --url) url=${2-} ;;
            --token-file) token_file=${2-} ;;
            --level) level=${2-} ;;
            --silent) silent=${2-} ;;
            --max) max=${2-} ;;
            --unlocked) unlocked=${2-} ;;
            --check) check=1; shift; continue ;;
            *) say "unknown argument: $1" ;;
        esac
        shift
        if [ $# -gt 0 ]; then shift; fi
    done
    silent_s=$(seconds "$silent" 20) max_s=$(seconds "$max" 600)
    case $level in
        auto | plain | strict) ;;
        *) say "invalid level: $level; using auto"; level=auto ;;
    esac
    token=
    if [ -r "$token_file" ]; then read -r token <"$token_file" || :; fi
    if [ -z "$url" ] || [ -z "$token" ]; then
        say "--url is not set, or --token-file has no token"
    fi
    parse_url
}

start_unlocked() {
    if [ "$unlocked" = drain ]; then
        say "job $job: $1: the node is drained"
        exit 1
    fi
    say "job $job: $1: started without the lock"
    exit 0
}

# Make one call; exit if the answer says so. A call is shorter than --silent, so that a missing
# answer is noticed in time.
ask() {
    margin=$((silent_s > 20 ? 5 : silent_s / 5 + 1))
    left=$((heard + silent_s - $1 - margin))
    if [ $left -gt $((end - $1)) ]; then left=$((end - $1)); fi
    if [ $left -lt 1 ]; then left=1; fi
    waited=$(($1 - begun))
    body="{\"job_id\":\"$job\",\"node\":\"$node\",\"nodes\":\"$nodes\",\"level\":\"$level\""
    call POST /v1/lock "$body,\"waited_s\":$waited,\"deadline_s\":$left}" $((left + margin))
    case $status$answer in
        200*'"action":"go"'*'"pods"'*) start_unlocked "$answer" ;;
        200*'"action":"go"'*) exit 0 ;;
        200*'"action":"wait"'*) ;;
        *) return 1 ;;
    esac
    heard=$(now)
    if [ "$heard" -lt $(($1 + left)) ]; then sleep 1; fi
}

wait_for_lock() {
    begun=$(now) heard=$begun reported=
    end=$((begun + max_s))
    while at=$(now); do
        if [ "$at" -ge $end ]; then start_unlocked "not locked after $max_s s: $answer"; fi
        if [ $((at - heard)) -ge "$silent_s" ]; then
            start_unlocked "no answer for $silent_s s"
        fi
        if ask "$at"; then continue; fi
        if [ -z "$reported" ]; then
            say "job $job: no answer from $url: ${status:-no response} $answer"
        fi
        reported=1
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
node=${SLURMD_NODENAME:-}
nodes=${SLURM_JOB_NODELIST:-$node}
status= answer=
wait_for_lock
