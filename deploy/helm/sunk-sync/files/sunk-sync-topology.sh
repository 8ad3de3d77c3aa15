#!/bin/sh
# The topology file: tell slurmctld where the Slurm nodes of NodeSets stand.
#
#   sunk-sync-topology.sh          beside slurmctld, as SlurmUser, as long as slurmctld runs
#
# Slurm 24.11 knows switches only from topology.conf, and 26.05 knows blocks only from
# topology.yaml. The script asks sunk-sync what should stand there. It adds that to what the
# administrator wrote (topology.base.conf or .yaml beside slurm.conf), tries the file with a
# slurmctld of its own, moves it in place and runs `scontrol reconfigure`, at most once in 30 s. It
# needs a POSIX shell, coreutils, grep, sed, slurmctld, scontrol and one of curl, bash (http only) or
# python3.
#
# Settings come from sunk-sync.conf beside this script, else from /etc/slurm/sunk-sync (or from
# $SUNK_SYNC_HOOKS_CONF). It has lines `name = value`. Arguments take precedence:
#   --url URL               URL of the hooks API: http://sunk-sync.slurm.svc:8000
#   --token-file FILE       token of the gate; only SlurmUser may read it
#   --conf FILE             slurm.conf, /etc/slurm/slurm.conf by default
#   --file FILE             the topology file; by default topology.conf (24.11) or topology.yaml
#                           beside slurm.conf. SlurmUser needs to write into its folder
#   --poll 5s               pause between two calls
#   --pause 30s             at least so long from one reconfigure to the next
#   --trial-port 16817      port of the slurmctld that tries a file
# In the file the last five begin with topology-: topology-poll = 5s.
#   --once                  make one pass, and exit
#   --check                 test URL and token, and exit
set -u
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
PATH=$PATH:/usr/sbin:/sbin
export PATH
url= token_file= poll=5s conf_file=/etc/slurm/slurm.conf file= pause=30s
trial_port=16817 check= once=

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
            token-file=*) token_file=${line#*=} ;;
            topology-poll=*) poll=${line#*=} ;;
            topology-pause=*) pause=${line#*=} ;;
            topology-conf=*) conf_file=${line#*=} ;;
            topology-file=*) file=${line#*=} ;;
            topology-trial-port=*) trial_port=${line#*=} ;;
            topology-*) say "$1: unknown setting: $line" ;;
        esac
    done <"$1"
}

# number TEXT DEFAULT: the number; for an invalid text the default, with a message.
number() {
    case ${1%s} in
        '' | *[!0-9]* | ???????*) say "invalid number: $1; using $2"; echo "$2" ;;
        *) echo "${1%s}" ;;
    esac
}

configure() {
    conf=${SUNK_SYNC_HOOKS_CONF:-${0%/*}/sunk-sync.conf}
    if [ ! -r "$conf" ]; then conf=/etc/slurm/sunk-sync/sunk-sync.conf; fi
    if [ -r "$conf" ]; then read_conf "$conf"; fi
    while [ $# -gt 0 ]; do
        case $1 in
            --url) url=${2-} ;;
            --token-file) token_file=${2-} ;;
            --poll) poll=${2-} ;;
            --pause) pause=${2-} ;;
            --conf) conf_file=${2-} ;;
            --file) file=${2-} ;;
            --trial-port) trial_port=${2-} ;;
            --check) check=1; shift; continue ;;
            --once) once=1; shift; continue ;;
            *) say "unknown argument: $1" ;;
        esac
        shift
        if [ $# -gt 0 ]; then shift; fi
    done
    poll_s=$(number "$poll" 5) pause_s=$(number "$pause" 30)
    trial_port=$(number "$trial_port" 16817)
    token=
    if [ -r "$token_file" ]; then read -r token <"$token_file" || :; fi
    if [ -z "$url" ] || [ -z "$token" ]; then
        say "--url is not set, or --token-file has no token"
    fi
    parse_url
}

# Set `format`, `file` and the names of the files beside it.
find_files() {
    version=$(slurmctld -V) && version=${version##* } || { say "slurmctld -V fails"; return 1; }
    case ${version%.*} in
        1?.* | 2[0-4].*) format=conf ;;
        *) format=yaml ;;
    esac
    if [ -z "$file" ]; then file=${conf_file%/*}/topology.$format; fi
    if [ -L "$file" ]; then file=$(readlink -f "$file"); fi
    base=${conf_file%/*}/topology.base.$format
    state=${file%.*}.sunk-sync # of the script
    new=$state.new old=$state.old
}

hash() {
    if [ -r "$1" ]; then sha256sum <"$1" | cut -d ' ' -f 1; else echo none; fi
}

# The state is one line: hash of the content, of the base, and of the file that slurmctld has read.
read_state() {
    applied= of_base= of_file=
    if [ -r "$state" ]; then read -r applied of_base of_file <"$state" || :; fi
    if [ "$of_base" != "$(hash "$base")" ] || [ "$of_file" != "$(hash "$file")" ]; then applied=; fi
}

answers() {
    timeout 10 scontrol ping 2>/dev/null | grep -q 'is UP'
}

# $old is there from before a file is moved in place until slurmctld has read it. If the script was
# killed in between, and slurmctld ended, the last file must be there when it starts again.
recover() {
    if [ ! -e "$old" ] && [ ! -L "$old" ]; then return; fi
    if [ "$applied" ]; then
        rm -f "$old"
    elif ! answers; then
        put_back
        say "slurmctld does not answer: the last topology file is back"
    fi
}

# A link says that there was no file.
put_back() {
    if [ -L "$old" ]; then rm -f "$file" "$old"; else mv -f "$old" "$file"; fi
}

# Make the text fit into JSON.
plain() {
    printf '%s' "$1" | tr -c 'A-Za-z0-9 .,:;_/=()-' ' ' | cut -c 1-500
}

# ask: sets `wanted` (a hash, or nothing) and writes the content to $state.part.
ask() {
    wanted=
    body="{\"format\":\"$format\",\"applied\":\"$applied\",\"refused\":\"$refused\""
    call POST /v1/topology "$body,\"why\":\"$(plain "$why")\"}" 15
    case $status$answer in
        200*'"action":"nothing"'*) return 0 ;;
        200*'"action":"write"'*) ;;
        *) return 1 ;;
    esac
    wanted=${answer#*\"hash\":\"} wanted=${wanted%%\"*}
    content=${answer#*\"content\":\"} content=${content%%\"*}
    printf '%b' "$content" >"$state.part" || return 1
    if [ "$(hash "$state.part")" != "$wanted" ]; then
        say "the answer is damaged"
        return 1
    fi
}

# Write $new: what the administrator wrote in $base, with the content.
build() {
    if [ ! -r "$base" ] && [ -s "$file" ] && ! head -n 1 "$file" | grep -q "^$made"; then
        why="$file is not of sunk-sync: copy it to $base"
        return 1
    fi
    {
        echo "$made from ${base##*/}: change that one"
        if [ "$format" = conf ]; then
            if [ -r "$base" ]; then cat "$base"; echo; fi
            cat "$state.part"
        else
            with_blocks
        fi
    } >"$new" && chmod 644 "$new" || { why="$new cannot be written"; return 1; }
    if [ "$format" = yaml ] && [ -s "$missing" ]; then
        why="$base has no line '# sunk-sync blocks $(head -n 1 "$missing")'"
        return 1
    fi
}

# Print the base; below each line `# sunk-sync blocks NAME` the blocks of that topology.
with_blocks() {
    missing=$state.missing
    cut -d ' ' -f 1 "$state.part" | sort -u >"$missing"
    if [ ! -r "$base" ]; then return; fi
    while IFS= read -r line || [ "$line" ]; do
        printf '%s\n' "$line"
        name=${line#*# sunk-sync blocks }
        if [ "$name" = "$line" ]; then continue; fi
        while read -r topology block; do
            if [ "$topology" = "$name" ]; then
                printf '%s- block: "%s"\n' "${line%%[! ]*}" "$block"
            fi
        done <"$state.part"
        grep -vx "$name" "$missing" >"$missing.left"
        mv -f "$missing.left" "$missing"
    done <"$base"
}

# A block that leaves the file, and that any node names, would end slurmctld at the reconfigure.
# sunk-sync knows the nodes of NodeSets; this keeps blocks that others name.
keep_named_blocks() {
    if [ "$format" = conf ] || [ ! -r "$file" ]; then return 0; fi
    {
        if [ -r "$base" ]; then blocks "$base"; fi
        cut -d ' ' -f 2 "$state.part"
    } >"$state.stays"
    blocks "$file" | grep -vxF -f "$state.stays" >"$state.goes"
    if [ -s "$state.goes" ]; then
        scontrol -o show node >"$state.nodes" || { why="scontrol show node fails"; return 1; }
        sed -n 's/.* Topology=\([^ ]*\).*/\1/p' "$state.nodes" | tr ',' '\n' | sort -u |
            while IFS=: read -r topology block; do
                if grep -qxF -e "$block" "$state.goes"; then echo "$topology $block"; fi
            done >"$state.named"
        cat "$state.named" >>"$state.part"
    fi
    rm -f "$state.stays" "$state.goes" "$state.nodes" "$state.named"
}

blocks() {
    sed -n 's/^ *- *block: *"*\([^" #]*\).*/\1/p' "$1"
}

# Start a slurmctld on a copy of the configuration: it accepts or refuses the file in milliseconds.
# It gets ports and folders of its own, and neither accounting nor programs that do something. With
# auth/slurm it would take away the socket by which clients on this host authenticate; it has no
# authentication instead, and listens on the loopback alone.
try() {
    trial=$state.trial
    rm -rf "$trial"
    mkdir -m 700 "$trial" || { why="$trial cannot be made"; return 1; }
    for each in "${conf_file%/*}"/*; do
        if [ -f "$each" ]; then cp -p "$each" "$trial/" 2>/dev/null || :; fi
    done
    cp "$new" "$trial/topology.$format"
    left='AccountingStorage|Auth|Cred|CommunicationParameters|BurstBuffer|JobComp|Suspend|Resume|HealthCheck|StateSaveLocation'
    left="$left|SlurmctldPrimary|SlurmctldPort|SlurmctldPidFile|SlurmctldLogFile|SlurmctldSyslogDebug|SlurmctldDebug"
    for each in "$trial"/*.conf; do
        grep -viE "^[[:space:]]*($left)[A-Za-z]*[[:space:]]*=" "$each" >"$trial/copy"
        sed 's/^\([[:space:]]*SlurmctldHost=[^( ]*\).*/\1(127.0.0.1)/' "$trial/copy" >"$each"
    done
    mkdir "$trial/state"
    cat >>"$trial/${conf_file##*/}" <<END
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny
SlurmctldPort=$trial_port
StateSaveLocation=$trial/state
SlurmctldPidFile=$trial/pid
SlurmctldLogFile=$trial/log
SlurmctldDebug=info
END
    # It ends by itself if this script is killed.
    timeout -s KILL 15 sh -c 'echo $$ >"$1/own" && exec slurmctld -D -c -f "$1/$2"' - \
        "$trial" "${conf_file##*/}" >/dev/null 2>&1 &
    trial_pid=$!
    watch_trial && accepted=0 || accepted=1
    kill -9 "$(cat "$trial/own")" 2>/dev/null || :
    wait $trial_pid 2>/dev/null || :
    rm -rf "$trial"
    return $accepted
}

watch_trial() {
    rounds=0
    while [ $rounds -lt 100 ]; do
        if grep -q 'Running as primary controller' "$trial/log" 2>/dev/null; then return 0; fi
        if ! kill -0 $trial_pid 2>/dev/null; then
            why=$(grep -E 'fatal|error' "$trial/log" | tail -n 2)
            why=$(printf '%s' "$why" | sed "s|^\[[^]]*\] ||; s|$trial/||g")
            why=${why:-slurmctld ends without a word}
            return 1
        fi
        sleep 0.1
        rounds=$((rounds + 1))
    done
    why="slurmctld neither accepts nor refuses it within 10 s"
    return 1
}

# Whether the last reconfigure is long enough ago. A smaller number than before: a new boot.
may_reconfigure() {
    last=
    if [ -r "$state.last" ]; then read -r last <"$state.last" || :; fi
    at=$(now)
    [ -z "$last" ] || [ "$at" -lt "$last" ] || [ $((at - last)) -ge "$pause_s" ]
}

# Move the file in place and let slurmctld read it. Put the old one back if slurmctld ends.
apply() {
    now >"$state.last"
    if [ ! -e "$old" ] && [ ! -L "$old" ]; then
        if [ -e "$file" ]; then cp -p "$file" "$state.to" && mv "$state.to" "$old"
        else ln -s none "$old"
        fi || { why="$old cannot be written"; return 1; }
    fi
    mv -f "$new" "$file" || { why="$file cannot be written"; return 1; }
    said=$(timeout 60 scontrol reconfigure 2>&1) && done=1 || done=
    rounds=0 up=0
    while [ $rounds -lt 20 ] && [ $up -lt 2 ]; do
        sleep 0.5
        if answers; then up=$((up + 1)); else up=0; fi
        rounds=$((rounds + 1))
    done
    if [ $up -lt 2 ]; then
        echo "$built" >"$state.ended"
        put_back
        why="slurmctld ended at the reconfigure: the last file is back"
        return 1
    fi
    if [ -z "$done" ]; then
        put_back
        why="scontrol reconfigure fails: $said"
        return 1
    fi
    printf '%s %s %s\n' "$wanted" "$(hash "$base")" "$(hash "$file")" >"$state.to"
    mv -f "$state.to" "$state"
    rm -f "$old" "$state.ended"
}

# Remember a refusal: the same file is tried again after a minute. One that ended slurmctld is not.
refuse() {
    refused=$wanted tried=$1 tried_at=$(now)
    if [ "$why" != "$told" ]; then say "topology file refused: $why"; fi
    told=$why
}

pass() {
    read_state
    recover
    ask || return 1
    if [ -z "$wanted" ]; then return 0; fi
    if ! keep_named_blocks || ! build; then refuse none; return 0; fi
    built=$(hash "$new")
    if [ "$refused" = "$wanted" ] && [ "$tried" = "$built" ]; then
        if [ $(($(now) - tried_at)) -lt 60 ]; then return 0; fi
    fi
    if [ "$(cat "$state.ended" 2>/dev/null)" = "$built" ]; then
        why="slurmctld ended at the reconfigure"
        refuse "$built"
        return 0
    fi
    may_reconfigure || return 0
    answers || return 0
    if try && apply; then
        refused='' why='' told=''
        say "topology file $file: written, and read by slurmctld"
        read_state
    else
        refuse "$built"
    fi
    ask
}

configure "$@"
if [ "$check" ]; then
    call GET /v1/health '' 5
    echo "${status:-no answer} $answer"
    [ "$status" = 200 ]
    exit
fi
find_files || exit 1
made='# Made by sunk-sync-topology.sh'
refused='' why='' tried='' tried_at=0 told='' reported='' built='' status='' answer=''
stopping=
trap 'stopping=1' TERM INT # a pass is not interrupted
while :; do
    if pass; then
        reported=''
    else
        if [ -z "$reported" ]; then say "no answer from $url: ${status:-no response} $answer"; fi
        reported=1
        if [ "$once" ]; then exit 1; fi
    fi
    if [ "$once" ] || [ "$stopping" ]; then exit 0; fi
    sleep "$poll_s" &
    wait $! || :
    if [ "$stopping" ]; then exit 0; fi
done
