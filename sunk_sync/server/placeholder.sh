#!/bin/sh
# Placeholder of sunk-sync: it keeps these nodes for Kubernetes Pods until the Pods are gone.
# If this job ends, its Pods end with their grace period.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset ENV BASH_ENV LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH
umask 077
cd / || exit # the user of the Pod chose the directory
url=@URL@ token=@TOKEN@ extra=@EXTRA@ kill_wait_s=@KILL_WAIT@

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

started() {
    scontrol update "job=$job" "extra=$extra: started" >/dev/null 2>&1 &
    pause=1
    until call POST /v1/placeholder/started "{\"job_id\":\"$job\"}" 10; [ "$status" = 200 ]; do
        sleep $pause
        if [ $pause -lt 16 ]; then pause=$((pause * 2)); fi
    done
}

# Wait until the Pods are gone, or until Slurm sends SIGKILL after KillWait.
stopping() {
    trap '' TERM
    end_children $reporting $sleeping
    end=$(($(now) + kill_wait_s))
    while :; do
        left=$((end - $(now)))
        if [ $left -lt 1 ]; then left=1; fi
        call POST /v1/placeholder/stopping "{\"job_id\":\"$job\",\"deadline_s\":$left}" $((left + 3))
        case $status$answer in
            200*'"action":"gone"'*) exit 0 ;;
        esac
        sleep 1
    done
}

# Pods get no signals from Slurm. Its default action would end this job, and so the Pods.
signalled() {
    say "job $job got $1, and goes on: its Pods get no signals from Slurm; scancel $job ends them"
    end_children $sleeping
}

# End those of these processes that are still children of this script: the number of one that ended
# long ago may belong to another process, and this script may be root's.
end_children() {
    for one; do
        if read -r _ _ _ parent _ <"/proc/$one/stat" && [ "$parent" = $$ ]; then kill "$one"; fi
    done
} 2>/dev/null

parse_url
job=${SLURM_JOB_ID:-0}
if [ "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}; fi
reporting= sleeping= ignored='HUP INT QUIT ALRM USR1 USR2 TSTP TTIN TTOU XCPU XFSZ VTALRM PROF'
trap stopping TERM
trap '' $ignored # also in all processes that it starts
started &
reporting=$!
for name in $ignored; do
    # shellcheck disable=SC2064 # the name of this turn
    trap "signalled SIG$name" "$name"
done
while :; do
    sleep 3600 &
    sleeping=$!
    wait $sleeping
done
