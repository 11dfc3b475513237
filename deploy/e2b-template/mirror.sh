#!/bin/sh
# Makes or refreshes mirrors: reads addresses, one a line, and keeps each at
# $1/<host>/<path>.git, where Sandjet looks for it (WORKER_GIT_MIRRORS).
set -eu
to=$1
while read -r url; do
	case $url in
	'' | '#'*) continue ;;
	https://*) ;;
	*)
		echo "$url: want https://host/path" >&2
		exit 1
		;;
	esac
	at=${url#https://}
	at=$to/${at%.git}.git
	if [ -d "$at" ]; then
		git --git-dir="$at" fetch -q --prune origin
	else
		mkdir -p "${at%/*}"
		git clone -q --mirror "$url" "$at"
	fi
	# One pack with a bitmap: cheap to borrow from.
	git --git-dir="$at" repack -q -a -d --write-bitmap-index
	echo "$at"
done
