# What every script begins with. $1 is the desk, our own directory; $2 the
# protocol git may speak ("none": no network); $3 "" or the address a credential
# is for, as protocol=…,host=…; $4 the fence of whoever runs it
desk=$1 proto=$2 for=$3 fence=$4
shift 4
set -u
umask 077
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C

# What the sandbox's environment tells git, ssh and curl is not for us.
for v in $(env | sed -n -e 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p' -e 's/^\(SSH_[A-Za-z0-9_]*\)=.*/\1/p'); do
	unset "$v"
done
unset LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV CDPATH LANGUAGE EDITOR VISUAL PAGER

fail() {
	printf '%s\n' "$2" >&2
	exit "$1"
}

command -v git >/dev/null 2>&1 || fail 90 "there is no git in the sandbox"

# The desk is ours: nobody else's directory, no link to one.
[ -L "$desk" ] && fail 91 "the desk is a link"
mkdir -p "$desk" && chmod 700 "$desk" || fail 91 "the desk cannot be made"
export HOME="$desk/home" XDG_CONFIG_HOME="$desk/home"
mkdir -p "$HOME"
repo=$desk/repo

# Its worker may have died over an earlier script, which then still runs. One
# script at a time works at a desk: who comes later ends who was here before, but
# for one with a younger fence, which holds the job now.
birth() { set -- $(cat "/proc/$1/stat" 2>/dev/null); [ "${3-}" = Z ] || echo "${22-}"; }
among() { for p in /proc/[0-9]*; do tr '\000' '\n' 2>/dev/null <"$p/environ" | grep -qxF "SANDJET_GIT=$1" && echo "${p#/proc/}"; done; }
end() {
	read -r pid born lair <"$1" || return 0
	[ "$(birth "$pid")" = "$born" ] && kill -TERM "$pid" 2>/dev/null
	for p in $(among "$1"); do kill -TERM "$p" 2>/dev/null; done
	i=0
	while [ "$i" -lt 50 ] && [ -n "$(among "$1")$([ "$(birth "$pid")" = "$born" ] && echo "$pid")" ]; do
		i=$((i + 1))
		sleep 0.1 2>/dev/null || sleep 1
	done
	[ "$(birth "$pid")" = "$born" ] && kill -KILL "$pid" 2>/dev/null
	for p in $(among "$1"); do kill -KILL "$p" 2>/dev/null; done
	case $lair in
	/dev/shm/.sandjet-git.* | "$desk"/*) rm -rf "$lair" ;;
	esac
}
export SANDJET_GIT="$desk/run.$fence.$$"
trap 'rm -rf "${secret-}" "$SANDJET_GIT"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
secret=$(mktemp -d "/dev/shm/.sandjet-git.${desk##*/}.XXXXXX" 2>/dev/null) || secret=$(mktemp -d "$desk/secret.XXXXXX") || fail 91 "no place for a credential"
printf '%s %s %s\n' "$$" "$(birth $$)" "$secret" >"$SANDJET_GIT" || fail 91 "the desk cannot be written"
for r in "$desk"/run.*; do
	[ "$r" = "$SANDJET_GIT" ] && continue
	[ -f "$r" ] && [ ! -L "$r" ] || continue
	its=${r##*/run.}
	[ "${its%%.*}" -gt "$fence" ] 2>/dev/null && fail 98 "the job is in other hands by now"
	end "$r"
	rm -f "$r"
done
last=$(cat "$desk/fence" 2>/dev/null)
[ "${last:-0}" -gt "$fence" ] 2>/dev/null && fail 98 "the job is in other hands by now"
echo "$fence" >"$desk/fence"

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$HOME/.gitconfig" GIT_ATTR_NOSYSTEM=1
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS= GIT_NO_REPLACE_OBJECTS=1 GIT_ADVICE=0
export GIT_ALLOW_PROTOCOL="$proto" GIT_OPTIONAL_LOCKS=0 GIT_LFS_SKIP_SMUDGE=1 GIT_EDITOR=false GIT_PAGER=cat
[ "$proto" = none ] && export GIT_NO_LAZY_FETCH=1
if [ -n "${SANDJET_COMMITTER_NAME-}" ]; then
	export GIT_AUTHOR_NAME="$SANDJET_AUTHOR_NAME" GIT_AUTHOR_EMAIL="$SANDJET_AUTHOR_EMAIL"
	export GIT_COMMITTER_NAME="$SANDJET_COMMITTER_NAME" GIT_COMMITTER_EMAIL="$SANDJET_COMMITTER_EMAIL"
fi
# With curl 7.84 to 8.4, git before 2.44 hangs in uploads over HTTP/2 now and then,
# where lowSpeedTime does not end it either.
cat >"$GIT_CONFIG_GLOBAL" <<'CONFIG'
[core]
	hooksPath = /dev/null
	fsmonitor = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	autocrlf = false
	commitGraph = false
	multiPackIndex = false
	pager = cat
[safe]
	directory = *
	bareRepository = all
[protocol]
	allow = never
[protocol "https"]
	allow = always
[protocol "http"]
	allow = always
[protocol "ssh"]
	allow = always
[gc]
	auto = 0
[maintenance]
	auto = false
[init]
	defaultBranch = main
	templateDir =
[submodule]
	recurse = false
[fetch]
	recurseSubmodules = false
	writeCommitGraph = false
[push]
	recurseSubmodules = no
	followTags = false
	gpgSign = false
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[http]
	version = HTTP/1.1
	lowSpeedLimit = 1
	lowSpeedTime = 120
[gpg]
	format = ssh
CONFIG

# g is git with what a repository's own configuration must not change.
g() {
	git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.askPass= -c credential.helper= \
		-c core.sshCommand=false -c core.commitGraph=false -c core.multiPackIndex=false -c gc.auto=0 \
		-c submodule.recurse=false -c safe.directory='*' -c core.pager=cat "$@"
}

# at is g in the desk's repository. Its objects are borrowed, and the repository
# they are borrowed from is not asked for its refs.
at() { g --git-dir="$repo" -c core.alternateRefsCommand=: "$@"; }

# wt is g in the work tree's own repository, whose configuration may be a trap:
# only for what runs nothing and needs no network.
wt() { off g --git-dir="$dir/.git" --work-tree="$dir" -c core.alternateRefsCommand=: "$@"; }

# off runs one of the above without a network: no missing object is asked for.
off() { (GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 && export GIT_ALLOW_PROTOCOL GIT_NO_LAZY_FETCH && "$@"); }

# Standard input brings, a line each, a name and base64: secrets and long texts.
# They lie in memory where there is a place for it.
while read -r name text; do
	[ -n "$name" ] || break
	printf '%s' "$text" | base64 -d >"$secret/$name" || fail 91 "standard input is not what it should be"
done

# The helper gives the credential to the one server it is for.
if [ -f "$secret/password" ]; then
	cat >"$secret/helper" <<'HELPER'
[ "$3" = get ] || exit 0
p= h=
while IFS='=' read -r k v; do
	case $k in
	protocol) p=$v ;;
	host) h=$v ;;
	esac
done
[ "protocol=$p,host=$h" = "$2" ] || exit 0
printf 'username=%s\npassword=%s\n' "$(cat "$1/username")" "$(cat "$1/password")"
HELPER
fi
if [ -f "$secret/key" ]; then
	export GIT_SSH_COMMAND="ssh -F /dev/null -i '$secret/key' -o IdentitiesOnly=yes -o IdentityAgent=none -o ForwardAgent=no -o ForwardX11=no -o ClearAllForwardings=yes -o BatchMode=yes -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o StrictHostKeyChecking=yes -o UpdateHostKeys=no -o UserKnownHostsFile='$secret/known_hosts' -o GlobalKnownHostsFile=/dev/null -o PermitLocalCommand=no -o ProxyCommand=none -o ControlMaster=no -o ControlPath=none -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
else
	export GIT_SSH_COMMAND=false
fi

# net runs one of the above with the credential at hand.
net() {
	fn=$1
	shift
	if [ -f "$secret/helper" ]; then
		"$fn" -c "credential.helper=!sh '$secret/helper' '$secret' '$for'" "$@"
	else
		"$fn" "$@"
	fi
}

# tip NAME < what ls-remote says: the commit of exactly this ref, or nothing.
tip() { awk -F '\t' -v ref="$1" '$2 == ref { print $1; exit }'; }

# section NAME FILE announces a file that emit then prints as it is.
files=
section() {
	printf '%s.bytes=%s\n' "$1" "$(wc -c <"$2" | tr -d ' ')"
	files="$files $2"
}
emit() {
	echo
	for f in $files; do cat "$f"; done
}
