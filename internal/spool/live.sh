# Prints the directories of runs that have not ended, one a line: their runner
# lives. $1... base directories; all of them if none is given.
birth() { set -- $(cat "/proc/$1/stat" 2>/dev/null); [ "${3-}" = Z ] || echo "${22-}"; }
for dir in /tmp/.sandjet-*/*/; do
	dir=${dir%/}
	[ -f "$dir/pid" ] && [ ! -e "$dir/exit" ] || continue
	read -r pid born 2>/dev/null <"$dir/pid" || continue
	[ "$(birth "$pid")" = "$born" ] && echo "$dir"
done
exit 0
