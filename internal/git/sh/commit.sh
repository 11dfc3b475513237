# Makes one commit of all that changed, without running anything that the work
# tree's repository names: the index and the configuration are the desk's, the
# objects go where they belong.
# $1 directory  $2 address  $3 filter or ""  $4 where the job began or ""
# $5 largest file in bytes, 0 = any
# The message comes as "message", a key to sign with as "sign".
dir=$1 url=$2 filter=$3 base=$4 largest=$5
setup
head=$(wt rev-parse -q --verify 'HEAD^{commit}') || head=
branch=$(wt symbolic-ref -q --short HEAD) || branch=
[ -z "$base" ] || at cat-file -e "$base^{commit}" 2>/dev/null || fail 91 "commit $base, where the job began, is not in the repository"

export GIT_OBJECT_DIRECTORY="$objects" GIT_INDEX_FILE="$desk/index" GIT_DIR="$repo" GIT_WORK_TREE="$dir" HEADID="$head"
rm -f "$GIT_INDEX_FILE"
if [ -n "$head" ]; then
	g read-tree "$head" || exit
fi
cd "$dir" || fail 91 "$dir is not there"

# What is too large is seen before git reads it.
: >"$desk/large"
if [ "$largest" -gt 0 ]; then
	find . -xdev -name .git -prune -o -type f -size +"$largest"c -exec sh -c '
		for f; do
			git check-ignore -q --no-index -- "$f" && [ -z "$(git ls-files -- "$f")" ] && continue
			[ -n "$HEADID" ] && [ "$(git cat-file -s "$HEADID:${f#./}" 2>/dev/null)" = "$(wc -c <"$f" | tr -d " ")" ] && continue
			printf "%s\\0" "${f#./}"
		done' sandjet {} + >"$desk/large"
	if [ -s "$desk/large" ]; then
		echo "head=$head"
		section large "$desk/large"
		emit
		exit 95
	fi
fi

g add -A . || exit
tree=$(g write-tree) || exit
commit=$head created=0
if [ -n "$head" ]; then
	[ "$tree" = "$(g rev-parse "$head^{tree}")" ] || created=1
else
	[ "$tree" = "$(g hash-object -t tree /dev/null)" ] || created=1
fi
if [ $created = 1 ]; then
	set -- -F "$secret/message"
	[ -n "$head" ] && set -- -p "$head" "$@"
	if [ -f "$secret/sign" ]; then
		command -v ssh-keygen >/dev/null 2>&1 || fail 96 "there is no ssh-keygen in the sandbox to sign with"
		commit=$(g -c gpg.format=ssh -c gpg.ssh.program=ssh-keygen -c user.signingKey="$secret/sign" commit-tree -S "$tree" "$@") || exit
	else
		commit=$(g commit-tree "$tree" "$@") || exit
	fi
	unset GIT_OBJECT_DIRECTORY GIT_INDEX_FILE GIT_DIR GIT_WORK_TREE
	# The work tree's own repository learns of it: the next job begins there.
	wt update-ref --create-reflog -m "sandjet: commit" HEAD "$commit" "$head" || exit
	theirs=$(wt rev-parse --path-format=absolute --git-path index)
	cp "$desk/index" "$theirs.sandjet" && mv -f "$theirs.sandjet" "$theirs"
else
	unset GIT_OBJECT_DIRECTORY GIT_INDEX_FILE GIT_DIR GIT_WORK_TREE
fi

echo "head=$head"
echo "branch=$branch"
echo "commit=$commit"
echo "created=$created"
if [ -n "$commit" ] && [ "$commit" != "$base" ]; then
	changes "$base" "$commit" ${base:+"$base"}
fi
emit
