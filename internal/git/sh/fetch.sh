# Looks where the branch and its base are on the server, brings what is missing,
# and puts our commits on top of the branch if it has moved.
# $1 directory, or "" if the desk has no other  $2 address  $3 filter or ""
# $4 1 = begin with a new desk  $5 branch  $6 base branch or ""  $7 our commit
dir=$1 url=$2 filter=$3 fresh=$4 branch=$5 base=$6 ours=$7
[ "$fresh" = 1 ] && setup
cd "$desk" && [ -d "$repo" ] || fail 91 "the desk is gone"
set -- "refs/heads/$branch"
[ -n "$base" ] && [ "$base" != "$branch" ] && set -- "$@" "refs/heads/$base"
net at ls-remote --symref origin HEAD "$@" >"$desk/refs" || exit
[ -n "$base" ] || base=$(sed -n 's,^ref: refs/heads/\(.*\)[[:space:]]HEAD$,\1,p' "$desk/refs")

# bring REF NAME: the commit that REF has on the server, as refs/sandjet/NAME.
bring() {
	c=$(tip "$1" <"$desk/refs")
	at update-ref -d "refs/sandjet/$2"
	[ -n "$c" ] || return 0
	if off at rev-list -q --objects --max-count=1 "$c" >/dev/null 2>&1; then
		at update-ref "refs/sandjet/$2" "$c" || exit
	else
		f=$(at config --get remote.origin.partialCloneFilter) || f=
		net at fetch --progress --no-tags --no-auto-gc --no-write-fetch-head ${f:+"--filter=$f"} origin "+$1:refs/sandjet/$2" || exit
	fi
	at rev-parse -q --verify "refs/sandjet/$2^{commit}"
}
at update-ref refs/sandjet/ours "$ours" || exit
theirs=$(bring "refs/heads/$branch" theirs) || exit
trunk=
[ -n "$base" ] && { trunk=$(bring "refs/heads/$base" trunk) || exit; }
[ -n "$trunk" ] || trunk=$(bring HEAD trunk) || exit
via="net at"

echo "theirs=$theirs"
echo "trunk=$trunk"
echo "base=$base"

# What the pull request will show is the change since it left the trunk.
bringing() {
	from=
	[ -n "$trunk" ] && from=$(at merge-base "$trunk" "$tip")
	echo "tip=$tip"
	echo "state=$1"
	shift
	changes "$from" "$tip" "$@"
	emit
}
there() {
	bringing there $trunk
	exit 0
}

# The server has it: nothing to do.
if [ -n "$theirs" ] && at merge-base --is-ancestor "$ours" "$theirs"; then
	tip=$theirs
	there
fi

tip=$ours rebased=0
if [ -n "$theirs" ] && ! at merge-base --is-ancestor "$theirs" "$ours"; then
	fork=$(at merge-base "$theirs" "$ours") || fail 94 "the branch has no history in common with the commit"
	# The tree is sparse and empty: only what both sides changed is written to it.
	work=$desk/tree
	rm -rf "$work" "$repo/rebase-merge" "$repo/rebase-apply" "$repo/index" "$repo/index.lock"
	mkdir -p "$work" "$repo/info"
	echo "/.sandjet-nothing" >"$repo/info/sparse-checkout"
	on() { net g --git-dir="$repo" --work-tree="$work" -c core.alternateRefsCommand=: -c core.sparseCheckout=true -c core.bare=false "$@"; }
	cd "$work" || fail 91 "the desk is gone"
	on update-ref --no-deref HEAD "$ours" && on read-tree "$ours" && on read-tree -mu "$ours" || exit
	set --
	if [ -f "$secret/sign" ]; then
		set -- -c gpg.format=ssh -c gpg.ssh.program=ssh-keygen -c user.signingKey="$secret/sign" -c commit.gpgSign=true
	fi
	if ! on "$@" rebase -q --empty=drop --no-autostash --onto "$theirs" "$fork" >"$desk/out" 2>&1; then
		on diff --name-only --diff-filter=U -z >"$desk/conflict"
		[ -s "$desk/conflict" ] || {
			cat "$desk/out" >&2
			exit 128
		}
		section conflict "$desk/conflict"
		emit
		exit 94
	fi
	cd "$desk" || exit
	rm -rf "$work" "$repo/index"
	tip=$(at rev-parse -q --verify 'HEAD^{commit}') || exit
	rebased=1
	at update-ref refs/sandjet/ours "$tip"
	if [ "$tip" = "$theirs" ]; then
		there
	fi
fi
echo "rebased=$rebased"
bringing ahead $theirs $trunk
