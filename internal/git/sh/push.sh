# Moves the branch forward, never back. $1 branch  $2 commit
cd "$desk" || fail 91 "the desk is gone"
net at push --porcelain --progress --no-verify --no-signed --no-follow-tags --recurse-submodules=no origin "$2:refs/heads/$1" >"$desk/porcelain"
code=$?
section porcelain "$desk/porcelain"
emit
exit $code
