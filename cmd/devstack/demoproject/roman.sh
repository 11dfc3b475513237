#!/bin/sh
# usage: roman.sh NUMBER     prints 1 to 3999 as a Roman numeral
set -eu

case ${1-} in
'' | *[!0-9]* | 0*) echo "roman.sh: want a number from 1 to 3999" >&2; exit 2 ;;
esac
n=$1
[ "$n" -le 3999 ] || { echo "roman.sh: $n is more than 3999" >&2; exit 2; }

out=
for pair in 1000:M 900:CM 500:D 400:CD 100:C 90:XC 50:L 40:XL 10:X 9:IX 5:V 4:IV 1:I; do
  while [ "$n" -ge "${pair%:*}" ]; do
    out=$out${pair#*:}
    n=$((n - ${pair%:*}))
  done
done
echo "$out"
