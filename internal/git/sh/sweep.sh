# Takes away what scripts left that were killed before their end.
# $1 how the paths of the desks begin
rm -rf "$1"* "/dev/shm/.sandjet-git.${1##*/}"*
