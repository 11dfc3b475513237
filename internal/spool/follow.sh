# Start and join are this one call: launches a runner, which runs the command
# only if nobody has, and shows both spools from the given offsets until the
# command has ended. What it shows is for speed; the spools are the truth.
#
# $1 runner script  $2 directory  $3 stdout offset  $4 stderr offset
# $5... the runner's arguments
#
# Exits 0 when the end is recorded, 3 when the run could not be begun, 4 when
# its runner vanished without recording an end.
runner=$1 dir=$2 out=$3 err=$4
shift 4

birth() { set -- $(cat "/proc/$1/stat" 2>/dev/null); [ "${3-}" = Z ] || echo "${22-}"; }
nap() { sleep "$1" 2>/dev/null || sleep 1; }
# What the command has put in the place of a spool is not shown.
plain() { [ -f "$dir/$1" ] && [ ! -L "$dir/$1" ]; }
alive() {
	plain pid || return 1
	read -r pid born 2>/dev/null <"$dir/pid" || return 1
	[ "$(birth "$pid")" = "$born" ]
}

mine=
if [ -e "$dir" ]; then
	rm -f "$dir.env" # of a starter that came too late; who runs has read it
else
	mkdir -p "${dir%/*}" 2>/dev/null # what it says is no output of the command
	if command -v setsid >/dev/null 2>&1; then
		setsid sh -c "$runner" sandjet-run "$dir" "$@" </dev/null >/dev/null 2>&1 &
	else
		set -m
		sh -c "$runner" sandjet-run "$dir" "$@" </dev/null >/dev/null 2>&1 &
		set +m
	fi
	mine=$!
fi

i=0
until [ -e "$dir/pid" ] || [ -e "$dir/exit" ]; do
	i=$((i + 1))
	if [ ! -e "$dir" ]; then
		kill -0 "$mine" 2>/dev/null || [ -e "$dir" ] || exit 3
	fi
	[ "$i" -lt 500 ] || exit 4
	nap 0.01
done

if [ -e "$dir/exit" ]; then
	plain out && tail -c "+$((out + 1))" "$dir/out" 2>/dev/null
	plain err && tail -c "+$((err + 1))" "$dir/err" >&2 2>/dev/null
	exit 0
fi

{ plain out && exec tail -c "+$((out + 1))" -f "$dir/out" 2>/dev/null; } &
t1=$!
{ plain err && exec tail -c "+$((err + 1))" -f "$dir/err" >&2 2>/dev/null; } &
t2=$!
trap 'kill "$t1" "$t2" 2>/dev/null' EXIT
trap 'exit 143' HUP INT TERM

[ -n "$mine" ] && wait "$mine"
until [ -e "$dir/exit" ]; do
	alive || [ -e "$dir/exit" ] || exit 4
	nap 0.1
done
exit 0
