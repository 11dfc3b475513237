# Takes the spools of a run away that has ended, or whose runner is gone. The
# directory stays for two hours: as long as it is there, a late start of the same run
# joins the end instead of running the command again.
#
# $1 directory
dir=$1
birth() { set -- $(cat "/proc/$1/stat" 2>/dev/null); [ "${3-}" = Z ] || echo "${22-}"; }
if [ ! -e "$dir/exit" ]; then
	# Not of a run that goes on.
	[ -f "$dir/pid" ] && read -r pid born 2>/dev/null <"$dir/pid" || exit 0
	[ "$(birth "$pid")" != "$born" ] || exit 0
fi
rm -f "$dir/out" "$dir/err" "$dir.in" "$dir.env" "$dir/given"
: >"$dir/done"
find "${dir%/*}" -maxdepth 1 -name '*.env' -mmin +10 -exec rm -f {} + 2>/dev/null
find "${dir%/*}" -maxdepth 2 -name done -mmin +120 2>/dev/null | while read -r old; do
	rm -rf "${old%/done}"
done
exit 0
