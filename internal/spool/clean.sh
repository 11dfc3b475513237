# Takes the spools of an ended run away. The directory stays for two hours: as
# long as it is there, a late start of the same run joins the end instead of
# running the command again.
#
# $1 directory
dir=$1
[ -e "$dir/exit" ] || exit 0
rm -f "$dir/out" "$dir/err" "$dir.in"
: >"$dir/done"
find "${dir%/*}" -maxdepth 2 -name done -mmin +120 2>/dev/null | while read -r old; do
	rm -rf "${old%/done}"
done
exit 0
