# The part of `kraft-forensics collect` that runs on a node. It needs a POSIX sh with cat, head -c, wc, ls, od, tr, awk, find,
# date and cksum, sha256sum or md5sum (coreutils, busybox or toybox), only reads, and writes only its standard output.
#
# It comes after lines that set, each a string: want_id; want_path, want_properties, want_metadata_dir, want_logs (a path or
# nothing); want_dirs, want_tails, want_replicas (one entry a line); want_minutes (how old a log file may be, or
# nothing); want_light (nothing: everything; otherwise only what is small, neither the metadata log nor the node's own logs);
# want_disk (nothing: this is the node; otherwise only a disk of it, or an image, is mounted here); want_follow (nothing:
# send everything once), want_piece (the most bytes of a piece).
# Output, a line each; NAME is n:<text> or x:<hex>, TEXT is hex:
#   V key TEXT        a fact          M NAME TEXT       what is missing, and why
#   F NAME size       a file: `size` bytes follow, then `E same`, or `E changed`: it is sent again, or is missing
#   B count total     as many lines `NAME size`, then the files' bytes, one after the other, and the line E
#   D                 the end
# With want_follow it waits for commands instead, `begin` and then `round`s (below); these print, too:
#   A NAME start size a piece of a file, or a new file if start is 0: then as after F
#   G NAME            a file that the other side has, and that is gone here
LC_ALL=C; export LC_ALL
unset IFS CDPATH
nl='
'

hex() { printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n'; }
named() { case $1 in *[!A-Za-z0-9._/-]*) printf 'x:'; hex "$1" ;; *) printf 'n:%s' "$1" ;; esac; }
fact() { printf 'V %s %s\n' "$1" "$(hex "$2")"; }
lack() { printf 'M %s %s\n' "$(named "$1")" "$(hex "$2")"; }

# Whether a file can be sent: PATH NAME. A link could lead to a file that is nobody's business.
sendable() {
  if [ -h "$1" ]; then lack "$2" 'a link: not followed'; return 1; fi
  [ -e "$1" ] || return 1
  if [ ! -f "$1" ]; then lack "$2" 'not a regular file'; return 1; fi
  if [ ! -r "$1" ]; then lack "$2" 'no permission to read it'; return 1; fi
}

# Whether the files of a folder can be found: PATH NAME. Without permission they look as if there were none.
opens() { [ -r "$1" ] && [ -x "$1" ] || { lack "$2" 'no permission to read it'; return 1; }; }

# Exactly SIZE bytes of PATH: with zeros after its end, if it has become shorter. `E changed` follows then.
bytes() { [ "$2" = 0 ] || { head -c "$2" "$1"; cat /dev/zero; } 2>/dev/null | head -c "$2"; }

# "inode size" of PATH.
state() { ls -lnid "$1" 2>/dev/null | { read -r inode _ _ _ _ size _ && printf '%s %s' "$inode" "$size"; }; }

# The checksum and size of PATH as it is now: sets stamp and size.
look() {
  if [ "$summed_by" = cksum ]; then
    stamp=$(cksum <"$1" 2>/dev/null) && size=${stamp#* } && size=${size%% *}
  else
    stamp=$("$summed_by" <"$1" 2>/dev/null) && size=$(wc -c <"$1") && size=$((size)) && stamp="$stamp $size"
  fi
}

# A small file, which others may replace: the reads before and after must agree. PATH NAME
small() {
  sendable "$1" "$2" || return 0
  for try in 1 2 3 4 5; do
    look "$1" 2>/dev/null || break
    before=$stamp
    printf 'F %s %s\n' "$(named "$2")" "$size"
    bytes "$1" "$size"
    if look "$1" 2>/dev/null && [ "$stamp" = "$before" ]; then printf '\nE same\n'; return 0; fi
    printf '\nE changed\n'
  done
  lack "$2" 'it changed or went away while it was read'
}

# The same for many files at once, which is faster: PATHS below $root, whose name in the capture is $label.
bundle() {
  before=
  [ "$summed_by" != cksum ] || before=$(cksum "$@" 2>/dev/null) || before=
  if [ -n "$before" ]; then
    list=$(printf '%s\n' "$before" | awk -v skip="${#root}" -v label="$label" '
      { total += $2; lines = lines "\nn:" label substr($0, length($1) + length($2) + 3 + skip) " " $2 }
      END { printf "%d %d%s", NR, total, lines }')
    first=${list%%"$nl"*}
    printf 'B %s\n' "$list"
    { cat "$@"; cat /dev/zero; } 2>/dev/null | head -c "${first#* }"
    if [ "$(cksum "$@" 2>/dev/null)" = "$before" ]; then printf '\nE same\n'; return 0; fi
    printf '\nE changed\n'
  fi
  for path in "$@"; do small "$path" "$label${path#"$root"}"; done
}

# A file that only grows: as much as it had when it was first looked at. PATH NAME
growing() {
  sendable "$1" "$2" || return 0
  for try in 1 2 3; do
    before=$(state "$1") || break
    size=${before#* }
    printf 'F %s %s\n' "$(named "$2")" "$size"
    bytes "$1" "$size"
    after=$(state "$1")
    if [ "${after% *}" = "${before% *}" ] && [ "${after#* }" -ge "$size" ]; then printf '\nE same\n'; return 0; fi
    printf '\nE changed\n'
  done
  lack "$2" 'it was cut, replaced or removed while it was read'
}

# The value of KEY in a properties FILE; the last one counts.
property() {
  redacted "$1" | awk -v key="$2=" '
    index($0, key) == 1 { value = substr($0, length(key) + 1); sub(/[ \t]+$/, "", value) }
    END { print value }'
}

# A properties FILE without comments, and without the values of what sounds secret; continued lines are joined.
redacted() {
  awk '
    function shown(line,   name, value, low) {
      match(line, /[ \t]*[=:][ \t]*|[ \t]+/)
      if (!RSTART) return
      name = substr(line, 1, RSTART - 1); value = substr(line, RSTART + RLENGTH); low = tolower(name)
      if (low ~ /pass|secret|jaas|cred|token|key|certificate|private|salt|auth\./ || name ~ /\\/ ||
          tolower(value) ~ /password|passwd|secret[ \t]*=|loginmodule|-----begin|:\/\/[^\/]*@/) value = "[redacted]"
      print name "=" value
    }
    { sub(/\r$/, ""); sub(/^[ \t\f]+/, "") }
    !whole && /^[#!]/ { next }
    {
      ends = $0; sub(/\\+$/, "", ends)
      if ((length($0) - length(ends)) % 2) { whole = whole substr($0, 1, length($0) - 1); held = 1; next }
      shown(whole $0); whole = ""; held = 0
    }
    END { if (held) shown(whole) }' "$1" 2>/dev/null
}

text() { # NAME TEXT
  printf 'F %s %s\n' "$(named "$1")" "$((${#2} + 1))"
  printf '%s\n\nE same\n' "$2"
}

is_log_dir() { [ -e "$1/meta.properties" ] || [ -d "$1/__cluster_metadata-0" ] || [ -e "$1/replication-offset-checkpoint" ]; }
has_logs() { [ -e "$1/server.log" ] || [ -e "$1/state-change.log" ] || [ -e "$1/controller.log" ]; }
is_this_node() { [ "$(property "$1" node.id)" = "$want_id" ] || [ "$(property "$1" broker.id)" = "$want_id" ]; }

# The running process of this node: sets process, properties and logs.
find_process() {
  for folder in /proc/[0-9]*; do
    args=$(tr '\0' '\n' 2>/dev/null <"$folder/cmdline") 2>/dev/null || continue
    case $args in *kafka.Kafka*) ;; *) continue ;; esac
    file=$(printf '%s\n' "$args" | awk 'found { print; exit } $0 == "kafka.Kafka" { found = 1 }')
    case $file in '') continue ;; /*) ;; *) file=$folder/cwd/$file ;; esac
    [ -r "$file" ] && is_this_node "$file" || continue
    process=$folder
    [ -n "$properties" ] || properties=$file
    [ -n "$logs" ] || logs=$(printf '%s\n' "$args" | awk '/^-Dkafka\.logs\.dir=/ { print substr($0, 18) }')
    case $logs in ''|/*) ;; *) logs=$folder/cwd/$logs ;; esac
    zone_of_process "$args"
    return
  done
}

# The zone of the times in a process' own logs, only where it is UTC for certain: other zones may change within a log. What
# `date` calls GMT is London's time in winter, too, and GMT+2 is a zone of its own for Java.
zone_of_process() {
  zone=$(printf '%s\n' "$1" | awk '/^-Duser\.timezone=/ { zone = substr($0, 17) } END { print zone }')
  [ -n "$zone" ] || [ -r "$process/environ" ] || return 0
  [ -n "$zone" ] || zone=$(tr '\0' '\n' 2>/dev/null <"$process/environ" | awk '/^TZ=/ { print substr($0, 4) }')
  [ -n "$zone" ] || zone=$(unset TZ; date +%Z | awk '$0 != "GMT"')
  case $zone in UTC|Etc/UTC|GMT) fact log_zone UTC ;; esac
}

configured() { # PROPERTIES: its log directories, a line each
  set -- "$(property "$1" log.dirs)" "$(property "$1" log.dir)"
  printf '%s\n' "${1:-${2:-/tmp/kafka-logs}}" | tr ',' '\n' | awk '{ gsub(/^[ \t]+|[ \t]+$/, "") } length'
}

# What a folder that was named has in it: properties, log directories, logs.
look_into() {
  if is_log_dir "$1"; then dirs=$1; fi
  for file in "$1"/server.properties "$1"/broker.properties "$1"/controller.properties "$1"/config/*.properties \
    "$1"/config/kraft/*.properties; do
    [ -z "$properties" ] && [ -f "$file" ] && is_this_node "$file" && properties=$file
  done
  if [ -z "$dirs" ]; then
    for folder in "$1"/*; do
      [ ! -h "$folder" ] && is_log_dir "$folder" && dirs="$dirs${dirs:+$nl}$folder"
    done
    # The properties name them all, also those elsewhere, unless they are of another place.
    [ -z "$properties" ] || case $nl$(configured "$properties")$nl in *"$nl${dirs%%"$nl"*}$nl"*) dirs= ;; esac
  fi
  for folder in "$1" "$1/logs"; do [ -z "$logs" ] && has_logs "$folder" && logs=$folder; done
  return 0
}

find_properties() {
  for file in /etc/kafka/server.properties /etc/kafka/*.properties /etc/kafka/kraft/*.properties \
    /opt/kafka/config/server.properties /opt/kafka/config/*.properties /opt/kafka/config/kraft/*.properties /tmp/strimzi.properties; do
    [ -f "$file" ] && is_this_node "$file" && { properties=$file; return; }
  done
}

find_logs() {
  for folder in "${properties%/*}/../logs" /var/log/kafka /opt/kafka/logs; do
    has_logs "$folder" && { logs=$folder; return; }
  done
}

find_all() {
  properties=$want_properties; dirs=$want_dirs; logs=$want_logs; metadata=$want_metadata_dir; process=
  if [ -f "$want_path" ]; then
    [ -n "$properties" ] || properties=$want_path
  elif [ -n "$want_path" ]; then
    [ -d "$want_path" ] || lack "$want_path" 'no such file or folder on the node'
    look_into "${want_path%/}"
  fi
  if [ -z "$want_disk" ]; then
    if [ -z "$properties$dirs$metadata" ] || [ -z "$logs" ]; then find_process; fi
    [ -n "$properties$dirs$metadata" ] || find_properties
  fi
  if [ -n "$properties" ] && [ ! -r "$properties" ]; then lack "$properties" 'cannot be read'; properties=; fi
  if [ -n "$properties" ]; then
    if [ -z "$dirs" ]; then
      dirs=$(configured "$properties")
      [ -n "$metadata" ] || metadata=$(property "$properties" metadata.log.dir)
    fi
    [ -n "$logs" ] || find_logs
  fi
}

offsets() { # DIR NAME
  for file in replication-offset-checkpoint recovery-point-offset-checkpoint log-start-offset-checkpoint \
    .kafka_cleanshutdown meta.properties; do small "$1/$file" "$2/$file"; done
  # When it was written, by the clock of this machine; asked for after it was copied, so not too early.
  file=replication-offset-checkpoint
  [ -n "$want_disk" ] || [ ! -f "$1/$file" ] || fact "written:$2/$file" "$(date -r "$1/$file" +%s 2>/dev/null)"
  marker "$1" "$2" before
}

# Whether the broker has stopped cleanly, before and after everything else of a directory was read.
marker() { # DIR NAME WHEN
  stamp=
  [ ! -f "$1/.kafka_cleanshutdown" ] || look "$1/.kafka_cleanshutdown" 2>/dev/null
  fact "stopped-$3:$2" "$stamp"
}
marker_after() { marker "$1" "$2" after; }

replicas() { # DIR NAME
  root=$1; label=$2; set --
  for folder in "$root"/*-[0-9]*; do
    replica=${folder##*/}
    case ${replica##*-} in *[!0-9]*) continue ;; esac
    [ "$replica" != __cluster_metadata-0 ] && [ -d "$folder" ] || continue
    if [ -h "$folder" ]; then lack "$label/$replica" 'a link: not followed'; continue; fi
    opens "$folder" "$label/$replica" || continue
    for file in leader-epoch-checkpoint partition.metadata; do
      # Kafka allows no other characters in a topic's name.
      case $replica in *[!A-Za-z0-9._-]*) small "$folder/$file" "$label/$replica/$file"; continue ;; esac
      sendable "$folder/$file" "$label/$replica/$file" && set -- "$@" "$folder/$file"
    done
    if [ $# -ge 200 ]; then bundle "$@"; set --; fi
  done
  if [ $# -gt 0 ]; then bundle "$@"; fi
}

tails() { # DIR NAME
  printf '%s\n' "$want_tails" | while read -r topic; do
    [ -n "$topic" ] || continue
    for folder in "$1/$topic"-[0-9]*; do
      case ${folder##*-} in *[!0-9]*) continue ;; esac
      [ -d "$folder" ] && [ ! -h "$folder" ] || continue
      last=
      for file in "$folder"/[0-9]*.log; do last=$file; done
      growing "$last" "$2/${folder##*/}/${last##*/}"
    done
  done
}

# Whole logs of the replicas that were named, in order: a copy of a log that grows is a prefix of it. Kafka makes indexes anew.
replica_logs() { # DIR NAME
  printf '%s\n' "$want_replicas" | while read -r replica; do
    [ -n "$replica" ] && [ -d "$1/$replica" ] && [ ! -h "$1/$replica" ] || continue
    for file in "$1/$replica"/[0-9]*.log "$1/$replica"/[0-9]*.snapshot "$1/$replica"/[0-9]*.txnindex; do
      [ -e "$file" ] && growing "$file" "$2/$replica/${file##*/}"
    done
  done
}

# The last position before END in BYTES of an index, from its block of 4096 bytes on; 0 if there is none. INDEX BLOCK BYTES END
indexed() {
  position=$(od -An -v -tu1 -j $(($2 * 4096)) -N "$3" "$1" 2>/dev/null | awk -v end="$4" '
    { for (n = 1; n + 7 <= NF; n += 8) {
        at = (($(n + 4) * 256 + $(n + 5)) * 256 + $(n + 6)) * 256 + $(n + 7)
        if (at && at < end) found = at } }
    END { print found + 0 }')
}

# Where the batch of the last entry of an offset index begins in its segment, which is so long: sets position. Zeros are
# space that was allocated in advance. Entries of batches that were cut off stay (AbstractIndex.truncateToEntries0). INDEX SIZE
last_indexed() {
  position=0
  [ -f "$1" ] && [ ! -h "$1" ] && [ -r "$1" ] || return 0
  blocks=$(state "$1"); blocks=$(((${blocks#* } + 4095) / 4096)); low=0; high=1
  while [ $high -lt $blocks ] && indexed "$1" $high 8 "$2" && [ "$position" != 0 ]; do low=$high; high=$((high * 2)); done
  [ $high -le $blocks ] || high=$blocks
  while [ $((high - low)) -gt 1 ]; do
    middle=$(((low + high) / 2)); indexed "$1" $middle 8 "$2"
    if [ "$position" != 0 ]; then low=$middle; else high=$middle; fi
  done
  indexed "$1" $low 4096 "$2"
}

# The heads of the record batches in what comes: bytes from START to END of a segment, as od -tx1 prints them. A line
# `position head` for each batch that ends by then, at most 4096, the last one among them; `end position why`.
heads_in() { # START END
  awk -v start="$1" -v limit="$2" -v most=4096 '
    function number(first, last,   n, value) {
      for (n = first; n <= last; n++) value = value * 256 + low[head[n]]
      return value
    }
    function show(line) { if (shown < most - 1) { shown++; print line } else { if (held != "") skipped++; held = line } }
    BEGIN { for (n = 0; n < 256; n++) low[sprintf("%02x", n)] = n; at = start; why = "whole" }
    start + 16 * NR <= at { next }
    {
      base = start + 16 * (NR - 1)
      for (n = 1; n <= NF; n++) {
        place = base + n - 1 - at
        if (place < 0) continue
        head[place] = $n
        if (place < 60) continue
        size = number(8, 11) + 12; text = ""
        for (m = 0; m < 61; m++) text = text head[m]
        if (text ~ /^0+$/) { why = "zeros"; exit }
        if (number(16, 16) != 2 || size < 61 || size > 2147483647) { why = "bad"; exit }
        if (at + size > limit) { why = "torn"; exit }
        show(at " " text); at += size
      }
    }
    END {
      if (why == "whole" && at < limit) why = "torn"
      if (skipped) print "skipped " skipped
      if (held != "") print held
      print "end " at " " why
    }'
}

# The heads of the batches behind the last index entry of the last segment of each replica: where its log ends, without
# keys and values. From so much only: behind the last entry are index.interval.bytes, and a batch.
most_behind=67108864
heads() { # DIR NAME
  for folder in "$1"/*-[0-9]*; do
    replica=${folder##*/}
    case ${replica##*-} in *[!0-9]*) continue ;; esac
    [ "$replica" != __cluster_metadata-0 ] && [ -d "$folder" ] && [ ! -h "$folder" ] || continue
    last=
    for file in "$folder"/[0-9]*.log; do last=$file; done
    name=$2/$replica/${last##*/}; name=${name%.log}.heads
    [ -f "$last" ] && sendable "$last" "$name" || continue
    before=$(state "$last") || continue
    size=${before#* }
    last_indexed "${last%.log}.index" "$size"
    if [ $((size - position)) -gt $most_behind ]; then lack "$name" 'too much lies behind the last index entry'; continue; fi
    found=$(od -An -v -tx1 -j "$position" -N $((size - position)) "$last" 2>/dev/null | heads_in "$position" "$size")
    after=$(state "$last")
    if [ "${after% *}" != "${before% *}" ] || [ "${after#* }" -lt "$size" ]; then lack "$name" 'it was cut or replaced while it was read'
    else text "$name" "size $size$nl$found"; fi
  done
}

# Segments first: a snapshot because of which a segment may go away exists by then.
metadata_log() { # DIR NAME
  [ ! -d "$1/__cluster_metadata-0" ] || opens "$1/__cluster_metadata-0" "$2/__cluster_metadata-0" || return 0
  for ending in log checkpoint; do
    for file in "$1"/__cluster_metadata-0/[0-9]*."$ending"; do
      growing "$file" "$2/__cluster_metadata-0/${file##*/}"
    done
  done
  for file in quorum-state leader-epoch-checkpoint partition.metadata; do
    small "$1/__cluster_metadata-0/$file" "$2/__cluster_metadata-0/$file"
  done
  small "$1/bootstrap.checkpoint" "$2/bootstrap.checkpoint"
}

own_logs() { # DIR
  for file in "$1"/server.log "$1"/state-change.log "$1"/controller.log; do growing "$file" "logs/${file##*/}"; done
  # After the files that are written now: one that is rotated meanwhile is rather copied twice than missed.
  for file in "$1"/server[.-]*log* "$1"/state-change[.-]*log* "$1"/controller[.-]*log*; do
    case ${file##*/} in server.log|state-change.log|controller.log) continue ;; esac
    [ -e "$file" ] || continue
    if [ -n "$want_minutes" ] && recent=$(find "$file" -mmin "-$want_minutes" 2>/dev/null) && [ -z "$recent" ]; then
      continue
    fi
    growing "$file" "logs/${file##*/}"
  done
}

each_dir() { # FUNCTION: calls it with each log directory and its name in the capture
  action=$1; number=0
  # Without a here-document: some shells write a file for it.
  set -f; IFS=$nl; set -- $dirs; unset IFS; set +f
  for dir in "$@"; do
    "$action" "$dir" "logdir$number" </dev/null
    number=$((number + 1))
  done
}

look_at() { # DIR NAME
  if [ -d "$1" ]; then fact "$2" "$1"; opens "$1" "$2"; else lack "$2" "no such folder on the node, or no permission to see it: $1"; fi
}

# Which machine this is. Not in a container: its files are its image's, its name is its own. The namespaces that Linux
# starts with have fixed numbers (include/linux/proc_ns.h: PROC_UTS_INIT_INO, PROC_PID_INIT_INO).
machine() {
  is_machine=; machine_id=
  case $(ls -l /proc/self/ns/uts /proc/self/ns/pid 2>/dev/null) in
  *'uts:[4026531838]'*'pid:[4026531836]'*|*'pid:[4026531836]'*'uts:[4026531838]'*)
    case $(mounted /) in *' overlay '*|'') ;; *) is_machine=yes ;; esac ;;
  esac
  if [ -n "$is_machine" ]; then
    read -r name 2>/dev/null </proc/sys/kernel/hostname && fact node_name "$name"
    read -r machine_id 2>/dev/null </etc/machine-id && fact machine_id "$machine_id"
  fi
  # Only x86 says so.
  fact is_virtual "$(awk '/^flags/ { print / hypervisor( |$)/ ? "yes" : "no"; exit }' /proc/cpuinfo 2>/dev/null)"
}

# The machine's last runs, by its journal: the boot id of the last entry of each, when that was, and how long the
# machine had run (us). Only from the disks of the system: a journal on others may have been another machine's.
boots() {
  [ -n "$machine_id" ] && place=$(cd -P "/var/log/journal/$machine_id" 2>/dev/null && pwd -P) || return 0
  system=$(leaves_of $(mounted /))
  [ -n "$system" ] && [ "$(leaves_of $(mounted "$place"))" = "$system" ] || return 0
  fact boots "$(journalctl -q --list-boots 2>/dev/null | awk '$1 > -20 && length($2) == 32 { print $2 }' | while read -r id; do
    journalctl -q -b "$id" -n 1 -o export 2>/dev/null | awk -F= '
      $1 == "__REALTIME_TIMESTAMP" { at = $2 }
      $1 == "__MONOTONIC_TIMESTAMP" { ran = $2 }
      $1 == "_BOOT_ID" { print $2, at, ran; exit }'
  done)"
}

# "major:minor filesystem source" of what is mounted where PATH is.
mounted() {
  awk -v path="$1" '
    function plain(text,   at) {
      while (match(text, /\\[0-7][0-7][0-7]/)) {
        at = substr(text, RSTART + 1, 3)
        text = substr(text, 1, RSTART - 1) \
          sprintf("%c", 64 * substr(at, 1, 1) + 8 * substr(at, 2, 1) + substr(at, 3, 1)) substr(text, RSTART + 4)
      }
      return text
    }
    {
      point = plain($5); if (point != "/") point = point "/"
      if (index(path "/", point) != 1 || length(point) < most) next
      for (n = 7; n < NF && $n != "-"; n++);
      most = length(point); found = $3 " " $(n + 1) " " $(n + 2)
    }
    END { print found }' /proc/self/mountinfo 2>/dev/null
}

# The folders in /sys of the disks under a block device's FOLDER there: a partition's disk, the parts of a volume.
leaves() {
  set -- "$(cd -P "$1" 2>/dev/null && pwd -P)"
  [ -n "$1" ] || return 0
  [ ! -e "$1/partition" ] || set -- "${1%/*}"
  for part in "$1"/slaves/*; do
    [ -e "$part" ] || { printf '%s\n' "$1"; return; }
    (leaves "$part")
  done
}

# The same for what `mounted` said. Some file systems (btrfs) have no device number of their own.
leaves_of() { # MAJOR:MINOR FILESYSTEM SOURCE
  case $1 in
  0:*) case $3 in /dev/*) leaves "/sys/class/block/${3##*/}" ;; esac ;;
  ?*) leaves "/sys/dev/block/$1" ;;
  esac
}

transport() { # FOLDER
  case $1 in
  */rport-*) echo fc ;;
  */session[0-9]*) echo iscsi ;;
  */usb[0-9]*) echo usb ;;
  */virtio[0-9]*) echo virtio ;;
  */vmbus*|*/VMBUS*) echo vmbus ;;
  */ata[0-9]*) echo sata ;;
  */end_device-*) echo sas ;;
  */loop[0-9]*) echo loop ;;
  */nbd[0-9]*) echo nbd ;;
  */rbd[0-9]*) echo rbd ;;
  */nvme/*) cat "$1/device/transport" 2>/dev/null ;;
  esac
}

# What a log directory lies on: a line for each disk, or one without a disk.
disks() { # DIR NAME
  place=$(cd -P "$1" 2>/dev/null && pwd -P) || return 0
  set -- "$2" $(mounted "$place")
  [ $# -ge 3 ] || return 0
  system=$(leaves_of $(mounted /))
  found=$(leaves_of "$2" "$3" "$4" | while read -r folder; do
    is_system=
    [ -z "$is_machine" ] || case $nl$system$nl in *"$nl$folder$nl"*) is_system=yes ;; *) is_system=no ;; esac
    read -r model 2>/dev/null <"$folder/device/model" || model=
    printf '%s\t%s\t%s\t%s\t%s\n' "$3" "${folder##*/}" "$(transport "$folder")" "$is_system" "$model"
  done)
  fact "disks:$1" "${found:-$3}"
}

listing() { [ -d "$1" ] && text "listing-$2.txt" "$(ls -lnRAH "$1" 2>/dev/null)"; }

# The metadata log is in one of the log directories, or has a directory of its own.
metadata_logs() {
  each_dir metadata_log
  case $nl$dirs$nl in
  *"$nl$metadata$nl"*) ;;
  *) if [ -n "$metadata" ]; then
      look_at "$metadata" metadata
      offsets "$metadata" metadata; metadata_log "$metadata" metadata; listing "$metadata" metadata
    fi ;;
  esac
}

node_logs() {
  if [ -d "$logs" ]; then fact logs "$logs"; own_logs "$logs"; else lack logs 'no folder with server.log found'; fi
}

has_tools() { # MORE...
  for tool in md5sum sha256sum cksum; do printf x | "$tool" >/dev/null 2>&1 && summed_by=$tool; done
  for tool in cat head wc ls od tr awk find date "${summed_by:-cksum}" "$@"; do
    command -v "$tool" >/dev/null 2>&1 || { lack "$tool" 'this program is missing on the node'; return 1; }
  done
}

# What follows a log. $known: what the other side has, a line each: NAME SIZE SUM; SUM is the SHA-256 of a small file, and
# of the end of a segment or snapshot (end_sum). $there: the names of what this node has.
known_of() { # PATH NAME: sets known_size and known_sum; fails if there is no such file here
  known_size=; known_sum=
  [ -e "$1" ] || return 1
  set -- "$(named "$2")"
  there=$there$1$nl
  case $known in *"$nl$1 "*)
    set -- "${known#*"$nl$1 "}"
    set -- "${1%%"$nl"*}"
    known_size=${1% *}; known_sum=${1#* } ;;
  esac
}

# At most SIZE bytes of PATH from byte START on; dd does not read what is before them.
part() { # PATH START SIZE
  dd if="$1" bs=4096 skip=$(($2 / 4096)) count=$((($2 % 4096 + $3 + 4095) / 4096)) 2>/dev/null |
    tail -c +$(($2 % 4096 + 1)) | head -c "$3"
}

# The SHA-256 of the last 4 to 8 KiB of the first SIZE bytes of PATH.
end_sum() { # PATH SIZE
  start=$((($2 + 4095) / 4096 * 4096 - 8192))
  [ $start -gt 0 ] || start=0
  sum=$(part "$1" $start $(($2 - start)) | sha256sum)
  printf '%s' "${sum%% *}"
}

changed() { # PATH NAME: a small file
  known_of "$1" "$2" || return 0
  sum=$(sha256sum 2>/dev/null <"$1")
  [ "${sum%% *}" = "$known_sum" ] || small "$1" "$2"
}

snapshot() { # PATH NAME: only whole ones are of use; nobody writes one again
  known_of "$1" "$2" || return 0
  now=$(state "$1")
  [ "${now#* }" = "$known_size" ] || growing "$1" "$2"
}

# The next piece of a segment; the first one of a new file, if what the other side has does not begin this one.
appended() { # PATH NAME
  known_of "$1" "$2" && sendable "$1" "$2" && before=$(state "$1") || return 0
  size=${before#* }; from=${known_size:-0}
  if [ "$from" -gt "$size" ] || [ -z "$known_size" ] || [ "$(end_sum "$1" "$from")" != "$known_sum" ]; then from=0; known_size=; fi
  [ "$known_size" != "$size" ] || return 0
  count=$((size - from))
  [ $count -le "$want_piece" ] || count=$want_piece
  printf 'A %s %s %s\n' "$(named "$2")" "$from" $count
  [ $count = 0 ] || { part "$1" "$from" $count; cat /dev/zero; } 2>/dev/null | head -c $count
  after=$(state "$1")
  # The sum again: a log that was cut before it was read may have grown again.
  if [ "${after% *}" = "${before% *}" ] && [ "${after#* }" -ge $((from + count)) ] &&
    { [ "$from" = 0 ] || [ "$(end_sum "$1" "$from")" = "$known_sum" ]; }; then printf '\nE same\n'
  else printf '\nE changed\n'; fi
}

# A snapshot because of which a segment may go away exists when the segments have been looked at.
followed_log() { # DIR NAME
  [ -d "$1/__cluster_metadata-0" ] || return 0
  for file in meta.properties bootstrap.checkpoint; do changed "$1/$file" "$2/$file"; done
  set -- "$1/__cluster_metadata-0" "$2/__cluster_metadata-0"
  for file in quorum-state leader-epoch-checkpoint partition.metadata; do changed "$1/$file" "$2/$file"; done
  for file in "$1"/[0-9]*.log; do
    [ -e "$file" ] && segments=$((segments + 1)) && appended "$file" "$2/${file##*/}"
  done
  for file in "$1"/[0-9]*.checkpoint; do snapshot "$file" "$2/${file##*/}"; done
}

begin() {
  has_tools dd tail sha256sum && find_all
  printf 'D\n'
}

round() { # KNOWN
  known=$nl$1$nl; there=$nl; segments=0
  if [ -f "$properties" ]; then
    now=$(redacted "$properties"); sum=$(printf '%s\n' "$now" | sha256sum)
    known_of "$properties" server.properties
    [ "${sum%% *}" = "$known_sum" ] || text server.properties "$now"
  fi
  each_dir followed_log
  case $nl$dirs$nl in *"$nl$metadata$nl"*) ;; *) [ -z "$metadata" ] || followed_log "$metadata" metadata </dev/null ;; esac
  # A disk that is not mounted has deleted nothing.
  [ $segments = 0 ] || printf '%s\n' "$1" | while read -r name _; do
    case $there in *"$nl$name$nl"*) ;; *) [ -z "$name" ] || printf 'G %s\n' "$name" ;; esac
  done
  fact segments $segments
  printf 'D\n'
}

main() {
  has_tools || { printf 'D\n'; return; }
  # A disk that was mounted elsewhere says nothing of the machine that it was in.
  if [ -z "$want_disk" ]; then
    read -r uptime _ 2>/dev/null </proc/uptime && fact uptime "$uptime"
    small /proc/sys/kernel/random/boot_id boot_id
    fact zone "$(date '+%z %Z')"
  fi
  find_all
  each_dir look_at
  each_dir offsets
  # Before the leader epochs: Kafka writes an epoch's line before its first batch.
  each_dir heads
  each_dir replicas
  if [ -z "$want_disk" ]; then machine; each_dir disks; fi
  [ -n "$want_light" ] || metadata_logs
  if [ -n "$properties" ]; then
    fact properties "$properties"
    fact roles "$(property "$properties" process.roles)"
    text server.properties "$(redacted "$properties")"
  else
    lack server.properties 'no properties file of this node found that can be read'
  fi
  [ -n "$want_light" ] || { node_logs; each_dir listing; }
  each_dir tails
  each_dir replica_logs
  each_dir marker_after
  # A large journal takes its time.
  [ -n "$want_light$want_disk" ] || boots
  printf 'D\n'
}
[ -n "$want_follow" ] || main </dev/null
