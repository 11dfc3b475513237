# The runner: makes the run's directory, starts the command once, keeps its
# output and its end. It lives in a session of its own and needs nobody.
#
# $1 directory  $2 time limit  $3 silence limit  $4 grace between TERM and KILL
# (seconds, 0 = none)  $5 cap of each spool in bytes (0 = none)  $6 working
# directory or ""  $7 "secrets" if there is a file of them  $8... the command
dir=$1 limit=$2 silence=$3 grace=$4 cap=$5 cwd=$6 secrets=$7
shift 7

# Opened before there is a lock: whoever finds the directory takes the file away.
# Without the file the command is not begun.
[ -z "$secrets" ] || exec 3<"$dir.env" || exit 0

# The once-only lock: whoever makes the directory runs the command.
mkdir -m 755 "$dir" 2>/dev/null || exit 0
rm -f "$dir.env"

# The command may write here as well: pipes and links that it leaves are not
# opened, a pipe would never end.
plain() { [ -f "$dir/$1" ] && [ ! -L "$dir/$1" ]; }
text() { plain "$1" && head -c 100 "$dir/$1" 2>/dev/null; }
put() { rm -f "$dir/$1.tmp" 2>/dev/null; printf '%s\n' "$2" >"$dir/$1.tmp" && mv "$dir/$1.tmp" "$dir/$1"; }
size() { plain "$1" && stat -c %s "$dir/$1" 2>/dev/null || echo 0; }
birth() { set -- $(cat "/proc/$1/stat" 2>/dev/null); [ "${3-}" = Z ] || echo "${22-}"; }
nap() { sleep 0.1 2>/dev/null || sleep 1; }
sum() { plain "$1" && head -c "$2" "$dir/$1" 2>/dev/null | sha256sum 2>/dev/null | cut -d ' ' -f 1; }

mask=$(umask)
umask 077
: >"$dir/out"
: >"$dir/err"
umask "$mask"
put pid "$$ $(birth $$)"

# What grew past the cap is cut off and counted. The spools are opened for
# append, so the first $cap bytes stay as they were written. What comes between the
# look and the cut is not counted.
trim() {
	[ "$cap" -gt 0 ] || return 0
	for f in out err; do
		s=$(size $f)
		[ "$s" -gt "$cap" ] || continue
		dd if=/dev/null of="$dir/$f" bs=1 seek="$cap" 2>/dev/null
		d=$(text "$f.dropped" || echo 0)
		put $f.dropped $((d + s - cap))
	done
}

# Kills what is left of the command, also what left its process group: all of
# it carries the run's name in its environment.
sweep() {
	kill -KILL "-$cmd" 2>/dev/null
	for p in /proc/[0-9]*; do
		tr "\\0" "\\n" 2>/dev/null <"$p/environ" | grep -qxF "SANDJET_RUN=$dir/" && kill -KILL "${p#/proc/}" 2>/dev/null
	done
	return 0
}

# Ends the command for a reason; the first reason stays.
halt() {
	[ -e "$dir/stop" ] || (set -C && printf '%s\n' "$1" >"$dir/stop") 2>/dev/null
	kill -TERM "-$cmd" 2>/dev/null
	i=0
	while [ "$i" -lt "$grace" ]; do
		sleep 1
		i=$((i + 1))
	done
	sweep
}

# Once a second: caps, limits. Outlives the runner as long as the command does.
watch() {
	n=0 quiet=0 last=
	while sleep 1; do
		kill -0 $$ 2>/dev/null || kill -0 "-$cmd" 2>/dev/null || return
		n=$((n + 1))
		trim
		if [ "$limit" -gt 0 ] && [ "$n" -ge "$limit" ]; then
			halt timeout
			return
		fi
		[ "$silence" -gt 0 ] || continue
		now="$(size out) $(size err)"
		quiet=$((quiet + 1))
		[ "$now" = "$last" ] || quiet=0
		last=$now
		if [ "$quiet" -ge "$silence" ]; then
			halt silent
			return
		fi
	done
}

# record CODE writes the end, whole or not at all.
record() {
	trim
	o=$(size out) e=$(size err)
	put exit "code=$1
stop=$(text stop)
out=$o
err=$e
out_dropped=$(text out.dropped || echo 0)
err_dropped=$(text err.dropped || echo 0)
out_sha256=$(sum out "$o")
err_sha256=$(sum err "$e")"
}

if [ -n "$cwd" ]; then
	case $cwd in
	"~") cwd=$HOME ;;
	"~/"*) cwd=$HOME/${cwd#"~/"} ;;
	/*) ;;
	*) cwd=$HOME/$cwd ;;
	esac
	if ! cd "$cwd" 2>>"$dir/err"; then
		put stop cwd
		record 125
		exit 0
	fi
fi

in=/dev/null
[ -e "$dir.in" ] && in=$dir.in

# The secrets are shell text that exports them. It is read into a variable of this
# shell, which no environment shows, and run by the process that becomes the command.
# The sum tells a later worker what the command was given.
text=
if [ -n "$secrets" ]; then
	text=$(cat <&3)
	exec 3<&-
	umask 077
	put given "$(printf '%s\n%s' "$dir" "$text" | sha256sum 2>/dev/null | cut -d ' ' -f 1)"
	umask "$mask"
fi

if command -v setsid >/dev/null 2>&1; then
	(eval "$text"; export SANDJET_RUN="$dir/"; exec setsid "$@") <"$in" >>"$dir/out" 2>>"$dir/err" &
else
	set -m
	(eval "$text"; export SANDJET_RUN="$dir/"; exec "$@") <"$in" >>"$dir/out" 2>>"$dir/err" &
	set +m
fi
cmd=$!
text=
put cmd "$cmd"
# A stop that came before the command had a number.
[ -e "$dir/stop" ] && kill -TERM "-$cmd" 2>/dev/null

watch &
watcher=$!
wait "$cmd"
code=$?

if [ -e "$dir/stop" ]; then
	# Whoever ignores TERM has the grace; then nothing of the job is left.
	i=0
	while kill -0 "-$cmd" 2>/dev/null && [ "$i" -lt $((grace * 10)) ]; do
		nap
		i=$((i + 1))
	done
	sweep
fi
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
record "$code"
