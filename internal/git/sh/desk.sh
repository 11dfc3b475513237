# setup sets the desk's repository up: bare of all that the work tree's says, it only
# borrows the objects. $dir, $url and $filter are set.
setup() {
	[ -d "$dir" ] || fail 91 "$dir is not there"
	objects=$(wt rev-parse --path-format=absolute --git-path objects) || fail 91 "$dir is no readable git repository"
	case $objects in
	*"
"*) fail 91 "the repository's path holds a line break" ;;
	esac
	[ "$(wt config --bool core.sparseCheckout)" = true ] && fail 96 "a sparse checkout cannot be committed whole: turn it off with git sparse-checkout disable"
	rm -rf "$repo"
	g init -q --object-format="$(wt rev-parse --show-object-format)" "$repo.tmp" && mv "$repo.tmp/.git" "$repo" && rmdir "$repo.tmp" || fail 91 "the desk cannot be made"
	printf '%s\n' "$objects" >"$repo/objects/info/alternates"
	shallow=$(wt rev-parse --path-format=absolute --git-path shallow)
	[ -f "$shallow" ] && [ ! -L "$shallow" ] && cp "$shallow" "$repo/shallow"
	exclude=$(wt rev-parse --path-format=absolute --git-path info/exclude)
	mkdir -p "$repo/info"
	[ -f "$exclude" ] && [ ! -L "$exclude" ] && head -c 65536 "$exclude" >"$repo/info/exclude"
	at config remote.origin.url "$url"
	if [ -n "$filter" ]; then
		at config core.repositoryFormatVersion 1
		at config extensions.partialClone origin
		at config remote.origin.promisor true
		at config remote.origin.partialCloneFilter "$filter"
	fi
}
