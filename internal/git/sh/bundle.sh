# Packs what a push would bring into a file for the worker to take out.
# $1 directory  $2 address  $3 filter or ""  $4 our commit  $5 where the job began
# or ""  $6 largest bundle in bytes, 0 = any
dir=$1 url=$2 filter=$3 ours=$4 base=$5 largest=$6
setup
at update-ref refs/sandjet/ours "$ours" || exit
rm -f "$desk/bundle"
set -- refs/sandjet/ours
[ -n "$base" ] && set -- "$@" "^$base"
at bundle create --quiet --version=$([ "${#ours}" = 64 ] && echo 3 || echo 2) "$desk/bundle" "$@" || exit
size=$(wc -c <"$desk/bundle" | tr -d ' ')
echo "size=$size"
emit
[ "$largest" -gt 0 ] && [ "$size" -gt "$largest" ] && exit 95
exit 0
