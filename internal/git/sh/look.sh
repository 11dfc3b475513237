# Tells what a work tree is. $1 directory  $2 address
dir=$1 url=$2
[ -d "$dir/.git" ] || fail 93 "there is no repository at $dir"
[ "$(wt config --local --get remote.origin.url)" = "$url" ] || fail 92 "$dir holds another repository"
echo "head=$(wt rev-parse -q --verify 'HEAD^{commit}')"
echo "branch=$(wt symbolic-ref -q --short HEAD)"
echo "base=$(wt config --local --get sandjet.base)"
echo "default=$(wt config --local --get sandjet.default)"
emit
