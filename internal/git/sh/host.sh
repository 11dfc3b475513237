# On the worker's side: takes a bundle into a repository of our own that has
# nothing but what the server gave it. $1 address  $2 base branch or ""
# $3 where the job began or ""  $4 bundle  $5 our commit
url=$1 base=$2 began=$3 bundle=$4 ours=$5
rm -rf "$repo"
format=sha1
[ "${#ours}" = 64 ] && format=sha256
g init -q --object-format=$format "$repo.tmp" && mv "$repo.tmp/.git" "$repo" && rmdir "$repo.tmp" || fail 91 "the desk cannot be made"
at config remote.origin.url "$url"
if [ -n "$began" ]; then
	net at fetch --progress --no-tags --no-auto-gc --no-write-fetch-head origin "+refs/heads/${base:-*}:refs/sandjet/from/${base:-*}" || exit
	if ! at cat-file -e "$began^{commit}" 2>/dev/null; then
		net at fetch --progress --no-tags --no-auto-gc --no-write-fetch-head origin "+$began:refs/sandjet/began" || exit
	fi
fi
# From here on no credential: the bundle is somebody else's work.
rm -rf "$secret"
mkdir -m 700 "$secret"
[ "$(at bundle list-heads "$bundle" 2>/dev/null)" = "$ours refs/sandjet/ours" ] || fail 97 "the bundle does not hold the commit it should"
at bundle verify -q "$bundle" >/dev/null || fail 97 "the bundle does not fit the repository"
GIT_ALLOW_PROTOCOL=file
at fetch -q --no-tags --no-auto-gc --no-write-fetch-head "$bundle" refs/sandjet/ours:refs/sandjet/ours || fail 97 "the bundle's objects are not sound"
GIT_ALLOW_PROTOCOL=none
# Git looks closely at what comes over a network, not at what comes in a bundle.
printf '%s\n' "$ours" ${began:+"^$began"} >"$desk/revs"
at pack-objects -q --revs --stdout <"$desk/revs" >"$desk/pack" && at index-pack --strict --stdin <"$desk/pack" >/dev/null || fail 97 "the bundle's objects are not sound"
rm -f "$desk/pack"
[ "$(at rev-parse -q --verify 'refs/sandjet/ours^{commit}')" = "$ours" ] || fail 97 "the bundle does not hold the commit it should"
rm -f "$bundle"
emit
