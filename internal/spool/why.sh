# Says why no run can begin below a directory; nothing if one can.
#
# $1 directory
dir=$1 try=$1/.try.$$
{ mkdir -p "$dir" && mkdir "$try" && echo x >"$try/x"; } 2>&1
rm -rf "$try" 2>/dev/null
exit 0
