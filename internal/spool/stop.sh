# Ends a run: TERM to the command's process group, KILL after the grace to all
# that is left of it. A run that has not begun is kept from beginning.
#
# $1 directory  $2 reason  $3 grace in seconds
dir=$1 reason=$2 grace=$3

nap() { sleep 0.1 2>/dev/null || sleep 1; }
put() { rm -f "$dir/$1.tmp" 2>/dev/null; printf '%s\n' "$2" >"$dir/$1.tmp" && mv "$dir/$1.tmp" "$dir/$1"; }

mkdir -p "${dir%/*}"
if mkdir -m 755 "$dir" 2>/dev/null; then
	rm -f "$dir.env"
	: >"$dir/out"
	: >"$dir/err"
	put stop "$reason"
	none=$(sha256sum </dev/null 2>/dev/null | cut -d ' ' -f 1)
	put exit "code=143
stop=$reason
out=0
err=0
out_dropped=0
err_dropped=0
out_sha256=$none
err_sha256=$none"
	exit 0
fi

[ -e "$dir/exit" ] && exit 0
[ -e "$dir/stop" ] || (set -C && printf '%s\n' "$reason" >"$dir/stop") 2>/dev/null

# The runner writes the command's number right after it starts it.
i=0
until [ -e "$dir/cmd" ] || [ -e "$dir/exit" ] || [ "$i" -ge 50 ]; do
	nap
	i=$((i + 1))
done
cmd=$([ -f "$dir/cmd" ] && cat "$dir/cmd" 2>/dev/null)
[ -n "$cmd" ] && kill -TERM "-$cmd" 2>/dev/null

i=0
while [ ! -e "$dir/exit" ] && [ "$i" -lt $((grace * 10)) ]; do
	nap
	i=$((i + 1))
done
[ -e "$dir/exit" ] && exit 0
[ -n "$cmd" ] && kill -KILL "-$cmd" 2>/dev/null
for p in /proc/[0-9]*; do
	tr "\\0" "\\n" 2>/dev/null <"$p/environ" | grep -qxF "SANDJET_RUN=$dir/" && kill -KILL "${p#/proc/}" 2>/dev/null
done
i=0
while [ ! -e "$dir/exit" ] && [ "$i" -lt 50 ]; do
	nap
	i=$((i + 1))
done
exit 0
