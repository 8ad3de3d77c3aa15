#!/bin/sh
# The gate: no job starts on a host while a Pod of an ended placeholder still runs there.
#
#   PrologSlurmctld=/etc/slurm/sunk-sync/sunk-sync-prolog.sh
#
# The script asks sunk-sync and waits for the answer. Exit code 0 starts the job. The script always
# ends: see --busy, --busy-max and --silent. As Prolog of a node it always exits 0, because another
# code would drain the node. It needs a POSIX shell and one of curl, bash (http only) or python3.
#
# Settings come from the file sunk-sync.conf beside this script (or $SUNK_SYNC_HOOKS_CONF). It has
# lines `name = value`, named like the arguments without dashes. Arguments take precedence:
#   --url URL            URL of the hooks API: http://sunk-sync.slurm.svc:8000
#   --token-file FILE    token of the gate; only SlurmUser (as Prolog: root) may read it
#   --busy 90s           after this time of `wait`: requeue the job if sunk-sync says that it can be
#   --busy-max 10m       after this time of `wait`: start the job (sunk-sync counts this)
#   --silent 60s=pass    after this time without an answer: start the job (`pass`) or `requeue` it
#   --check              test URL and token, and exit
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
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

# read_conf FILE: lines `name = value`; none of it is executed.
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
            lock-* | topology-*) ;; # of other scripts
            *) say "$1: unknown setting: $line" ;;
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
    if [ -r "$conf" ]; then read_conf "$conf"; fi
    while [ $# -gt 0 ]; do
        case $1 in
            --url) url=${2-} ;;
            --token-file) token_file=${2-} ;;
            --busy) busy=${2-} ;;
            --busy-max) busy_max=${2-} ;;
            --silent) silent=${2-} ;;
            --check) check=1; shift; continue ;;
            *) say "unknown argument: $1" ;;
        esac
        shift
        if [ $# -gt 0 ]; then shift; fi
    done
    busy_s=$(seconds "$busy" 90) busy_max_s=$(seconds "$busy_max" 600)
    silent_s=$(seconds "${silent%%=*}" 60)
    if [ "$busy_s" -gt "$busy_max_s" ]; then busy_s=$busy_max_s; fi
    token=
    if [ -r "$token_file" ]; then read -r token <"$token_file" || :; fi
    if [ -z "$url" ] || [ -z "$token" ]; then
        say "--url is not set, or --token-file has no token"
    fi
    parse_url
}

# Requeue the job, if a non-zero exit code has no other effect.
requeue() {
    case ${SLURM_SCRIPT_CONTEXT:-} in
        prolog_slurmctld) say "job $job: $1: requeued"; exit 1 ;;
    esac
    say "job $job: $1: started, because a Prolog of a node cannot requeue"
    exit 0
}

handle_silence() {
    case ${silent#*=} in
        requeue) requeue "no answer for $silent_s s" ;;
    esac
    say "job $job: no answer for $silent_s s: started unchecked"
    exit 0
}

# Set `ends` (when the next call ends) and `after` (what follows). A call is shorter than --silent,
# so that a missing answer is noticed in time.
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

# Make one call; exit if the answer says so.
ask() {
    next_call "$1"
    left=$((ends - $1 > 0 ? ends - $1 : 1))
    body="{\"job_id\":\"$job\",\"nodes\":\"$nodes\",\"deadline_s\":$left,\"then\":\"$after\"}"
    call POST /v1/gate "$body" $((left + margin))
    case $status$answer in
        200*'"action":"go"'*) exit 0 ;;
        200*'"action":"requeue"'*)
            if [ "$after" = requeue ]; then requeue "busy for $busy_s s: $answer"; fi ;;
        200*'"action":"wait"'*) ;;
        *) return 1 ;;
    esac
    heard=$(now)
    if [ "$heard" -lt "$ends" ]; then sleep 1; fi
}

wait_for_go() {
    case ${SLURM_SCRIPT_CONTEXT:-} in
        prolog_slurmctld) ;;
        *) busy_s=0 ;; # a Prolog of a node cannot requeue: wait for --busy-max
    esac
    begun=$(now) heard=$begun reported=
    busy_end=$((begun + busy_s)) busy_max_end=$((begun + busy_max_s))
    while at=$(now); do
        if [ "$at" -ge $busy_max_end ]; then
            say "job $job: busy for $busy_max_s s: started although: $answer"
            exit 0
        fi
        if [ $((at - heard)) -ge "$silent_s" ]; then handle_silence; fi
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
nodes=${SLURM_JOB_NODELIST:-${SLURMD_NODENAME:-}}
case ${SLURM_SCRIPT_CONTEXT:-} in prolog_slurmd) nodes=${SLURMD_NODENAME:-$nodes} ;; esac
status= answer=
wait_for_go
