#!/bin/sh
# Report the end of a job to sunk-sync, which then reads the job without waiting for a poll.
#
#   EpilogSlurmctld=/etc/slurm/sunk-sync/sunk-sync-epilog.sh
#
# The script waits at most 3 s and always exits 0. It also works as Epilog of a node.
# It needs a POSIX shell and one of curl, bash (http only) or python3. URL and token come from the
# file sunk-sync.conf beside this script (or $SUNK_SYNC_HOOKS_CONF), as for the prolog. The
# arguments --url and --token-file take precedence.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
url= token_file=

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

read_conf() {
    while IFS= read -r line || [ "$line" ]; do
        line=$(printf '%s' "$line" | tr -d ' \t\r"')
        case $line in
            url=*) url=${line#*=} ;;
            token-file=*) token_file=${line#*=} ;;
        esac
    done <"$1"
}

conf=${SUNK_SYNC_HOOKS_CONF:-${0%/*}/sunk-sync.conf}
if [ -r "$conf" ]; then read_conf "$conf"; fi
while [ $# -gt 1 ]; do
    case $1 in
        --url) url=$2 ;;
        --token-file) token_file=$2 ;;
    esac
    shift 2
done
token=
if [ -r "$token_file" ]; then read -r token <"$token_file" || :; fi
parse_url
job=${SLURM_JOB_ID:-0}
if [ "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}; fi
call POST /v1/ended "{\"job_id\":\"$job\"}" 3
if [ "$status" != 200 ]; then
    say "job $job: sunk-sync does not know of its end: ${status:-no answer} $answer"
fi
exit 0
