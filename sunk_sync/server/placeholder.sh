#!/bin/sh
# Placeholder of sunk-sync: holds these nodes for Pods of Kubernetes until the Pods are gone.
# Ending this job ends the Pods, gracefully.
set -u
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
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

started() {
    scontrol update "job=$job" "extra=$extra: started" >/dev/null 2>&1 &
    pause=1
    until call POST /v1/placeholder/started "{\"job_id\":\"$job\"}" 10; [ "$status" = 200 ]; do
        sleep $pause
        if [ $pause -lt 16 ]; then pause=$((pause * 2)); fi
    done
}

# Blocks until the Pods are gone; when Slurm's patience ends first, its SIGKILL ends us.
stopping() {
    trap '' TERM
    kill $announcing $sleeping 2>/dev/null
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

parse_url
job=${SLURM_JOB_ID:-0}
if [ "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}; fi
announcing= sleeping=
trap stopping TERM
started &
announcing=$!
while :; do
    sleep 3600 &
    sleeping=$!
    wait $sleeping
done
