# Makes a work tree of a repository. A repository of its own from the first line:
# init and fetch, not git clone, so that nothing of a template gets in.
# $1 directory  $2 address  $3 ref or ""  $4 branch to make  $5 depth or 0
# $6 filter or ""  $7 1 = all branches  $8 mirror or ""  $9 1 = submodules  ${10} 1 = LFS
dir=$1 url=$2 ref=$3 branch=$4 depth=$5 filter=$6 all=$7 mirror=$8 modules=$9 lfs=${10}

# What is there already is ours if it is the same repository on the same branch.
if [ -d "$dir/.git" ]; then
	[ "$(wt config --local --get remote.origin.url)" = "$url" ] &&
		[ "$(wt symbolic-ref -q HEAD)" = "refs/heads/$branch" ] || fail 92 "$dir holds another repository or branch"
	echo adopted=1
	echo "head=$(wt rev-parse -q --verify 'HEAD^{commit}')"
	echo "base=$(wt config --local --get sandjet.base)"
	echo "default=$(wt config --local --get sandjet.default)"
	echo "found=$(wt config --local --get sandjet.found)"
	emit
	exit 0
fi
if [ -e "$dir" ] || [ -L "$dir" ]; then
	rmdir "$dir" 2>/dev/null || fail 92 "$dir is there and no repository"
fi

# Made under another name: a clone that is there is whole.
final=$dir
dir=$final.sandjet-part
rm -rf "$dir" || fail 91 "$dir cannot be removed"
umask 022
mkdir -p "$dir" || fail 91 "$dir cannot be made"

umask 077
refs=$desk/refs
set -- HEAD "refs/heads/$branch"
case $ref in
"") ;;
refs/*) set -- "$@" "$ref" ;;
*) set -- "$@" "refs/heads/$ref" "refs/tags/$ref" ;;
esac
net g ls-remote --symref -- "$url" "$@" >"$refs" || exit
default=$(sed -n 's,^ref: refs/heads/\(.*\)[[:space:]]HEAD$,\1,p' "$refs")
found=$(tip "refs/heads/$branch" <"$refs")

name= spec=
case $ref in
"")
	if [ -n "$default" ] && [ -n "$(tip "refs/heads/$default" <"$refs")$(tip HEAD <"$refs")" ]; then
		name=refs/heads/$default
	elif [ -n "$(tip HEAD <"$refs")" ]; then
		name=HEAD
	fi
	;;
refs/*) [ -n "$(tip "$ref" <"$refs")" ] && name=$ref ;;
*)
	if [ -n "$(tip "refs/heads/$ref" <"$refs")" ]; then
		name=refs/heads/$ref
	elif [ -n "$(tip "refs/tags/$ref" <"$refs")" ]; then
		name=refs/tags/$ref
	else
		case $ref in
		*[!0-9a-f]*) ;;
		*) [ ${#ref} -ge 40 ] && name=$ref ;;
		esac
	fi
	;;
esac

umask 022
# A remote that says nothing at all is empty, or hides all from us.
format=sha1
[ "$(awk '!/^ref:/ { print length($1); exit }' "$refs")" = 64 ] && format=sha256
g init -q --object-format=$format "$dir" || exit
wt symbolic-ref HEAD "refs/heads/$branch" || exit
wt config remote.origin.url "$url"
wt config sandjet.default "$default"
wt config sandjet.found "$found"

finish() {
	mv "$dir" "$final" || fail 91 "$final cannot be made"
	dir=$final
	echo "adopted=0"
	echo "head=$(wt rev-parse -q --verify 'HEAD^{commit}')"
	echo "base=$base"
	echo "default=$default"
	echo "found=$found"
	emit
	exit 0
}

base=
if [ -z "$name" ]; then
	[ -n "$ref" ] && fail 93 "there is no $ref"
	[ -z "$found" ] && finish
fi

# here is git in the new work tree, which still is ours alone.
here() { g --git-dir="$dir/.git" --work-tree="$dir" "$@"; }
if [ -n "$mirror" ] && [ -d "$mirror/objects" ]; then
	printf '%s\n' "$mirror/objects" >"$dir/.git/objects/info/alternates"
elif [ -n "$mirror" ] && [ -d "$mirror/.git/objects" ]; then
	printf '%s\n' "$mirror/.git/objects" >"$dir/.git/objects/info/alternates"
fi
fetch() {
	set -- origin "$@"
	[ -n "$filter" ] && set -- "--filter=$filter" "$@"
	[ "$depth" -gt 0 ] && set -- "--depth=$depth" "$@"
	net here fetch --progress --no-tags --no-auto-gc "$@"
}
mine=
[ -n "$found" ] && mine=+refs/heads/$branch:refs/remotes/origin/$branch
every='+refs/heads/*:refs/remotes/origin/*'
case $name in
"") spec= ;;
refs/heads/*) spec=+$name:refs/remotes/origin/${name#refs/heads/} ;;
refs/tags/*) spec=+$name:$name ;;
HEAD) spec=+HEAD:refs/remotes/origin/HEAD ;;
*) spec=$name ;;
esac
[ "$mine" = "$spec" ] && mine=
if [ "$all" = 1 ]; then
	wt config remote.origin.fetch "$every"
	case $spec in
	+refs/heads/*) spec= ;;
	esac
	set -- "$every" ${spec:+"$spec"}
else
	case $spec in
	+refs/heads/*) wt config remote.origin.fetch "$spec" ;;
	esac
	set -- ${spec:+"$spec"} ${mine:+"$mine"}
fi
case $name in
refs/* | HEAD | "") fetch "$@" || exit ;;
*)
	if ! fetch "$@" 2>"$desk/err"; then
		# Some servers give no commit by its id: then all branches, whole.
		grep -q -e 'unadvertised object' -e 'not our ref' "$desk/err" || {
			cat "$desk/err" >&2
			exit 128
		}
		net here fetch --progress --tags --no-auto-gc ${filter:+"--filter=$filter"} origin "$every" || exit
		off here cat-file -e "$name^{commit}" 2>/dev/null || fail 93 "there is no commit $name in any branch"
	fi
	;;
esac

if [ -n "$name" ]; then
	at=$name
	case $name in
	refs/heads/*) at=refs/remotes/origin/${name#refs/heads/} ;;
	HEAD) at=refs/remotes/origin/HEAD ;;
	esac
	base=$(wt rev-parse -q --verify "$at^{commit}") || fail 93 "$ref is no commit of the repository"
fi
start=$base
[ -n "$found" ] && start=$(wt rev-parse -q --verify "refs/remotes/origin/$branch^{commit}")
[ -n "$base" ] || base=$start
wt config sandjet.base "$base"

# Files of a partial clone come now, so the credential stays at hand for it.
co=here
[ -n "$filter" ] || co=wt
[ "$co" = wt ] || co="net here"
$co checkout -q --progress --no-track -B "$branch" "$start" || exit

if [ "$modules" = 1 ] && [ -f "$dir/.gitmodules" ]; then
	(cd "$dir" && net g submodule update --init --recursive --progress) || exit
fi
if [ "$lfs" = 1 ]; then
	git lfs version >/dev/null 2>&1 || fail 96 "there is no git-lfs in the sandbox"
	here lfs install --local --skip-repo >/dev/null || exit
	(unset GIT_LFS_SKIP_SMUDGE && cd "$dir" && net g lfs pull) || exit
fi
finish
