# changes BASE TIP NOT... says what a push of TIP brings that the commits NOT
# have not: each commit's paths, the sum from BASE on, and each file's size.
# $via runs git where files of a partial clone may be missing.
via=at
changes() {
	from=$1 to=$2
	shift 2
	at rev-list "$to" --not "$@" >"$desk/commits" || exit
	echo "commits=$(wc -l <"$desk/commits" | tr -d ' ')"
	$via diff-tree --stdin -r -m --root -z --raw --no-renames --no-abbrev --no-commit-id --no-ext-diff --no-textconv <"$desk/commits" >"$desk/raw" || exit
	[ -n "$from" ] || from=$(at hash-object -t tree /dev/null)
	$via diff-tree -r -z --numstat --no-renames --no-ext-diff --no-textconv "$from" "$to" >"$desk/stat" || exit
	tr '\000' '\n' <"$desk/raw" | sed -n 's/^:[0-7]* 1[02]0[0-7]* [0-9a-f]* \([0-9a-f]*\) [A-Z]$/\1/p' | grep -v '^0*$' | sort -u >"$desk/blobs"
	$via cat-file --batch-check='%(objectname) %(objecttype) %(objectsize)' <"$desk/blobs" >"$desk/sizes" || exit
	# Where links lead: they are small.
	tr '\000' '\n' <"$desk/raw" | sed -n 's/^:[0-7]* 120000 [0-9a-f]* \([0-9a-f]*\) [A-Z]$/\1/p' | sort -u >"$desk/linkids"
	: >"$desk/links"
	while read -r l; do
		printf '%s ' "$l" >>"$desk/links"
		$via cat-file blob "$l" | head -c 4096 | base64 | tr -d '\n' >>"$desk/links"
		echo >>"$desk/links"
	done <"$desk/linkids"
	section raw "$desk/raw"
	section stat "$desk/stat"
	section sizes "$desk/sizes"
	section links "$desk/links"
}
