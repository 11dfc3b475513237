#!/bin/sh
# sudo for a sandbox: its user may be its root, which is root only in here.
fail() { echo "sudo: $*" >&2; exit 1; }
user=root login=
while [ $# -gt 0 ]; do
	case $1 in
	-u | --user) user=$2; shift ;;
	-u?*) user=${1#-u} ;;
	--user=*) user=${1#*=} ;;
	-n | -E | -H | -S | -k | -b | --non-interactive | --preserve-env | --set-home | --stdin) ;;
	-i | -s | --login | --shell) login=1 ;;
	-v | -l | --validate | --list) exit 0 ;;
	--) shift; break ;;
	-*) fail "option $1 is not known here" ;;
	*=*) export "$1" ;;
	*) break ;;
	esac
	shift
done
case $user in
root | '#0') id=0 name=root home=/root ;;
user | '#1000') id=1000 name=user home=/home/user ;;
*) fail "unknown user $user" ;;
esac
[ -z "$login" ] || set -- "${SHELL:-/bin/sh}" ${1:+-c "$*"}
[ $# -gt 0 ] || fail "a command is wanted"
exec /usr/local/sbin/.setpriv --reuid "$id" --regid "$id" --clear-groups \
	env HOME="$home" USER="$name" LOGNAME="$name" SUDO_USER="${USER-user}" SUDO_UID="$(id -u)" "$@"
