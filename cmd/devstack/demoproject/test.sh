#!/bin/sh
# The project's tests: one line each in TAP form, the last line counts them.
cd "$(dirname "$0")" || exit 1
n=0
failed=0

check() { # check WHAT GOT WANT
  n=$((n + 1))
  if [ "$2" = "$3" ]; then
    echo "ok $n - $1"
  else
    echo "not ok $n - $1: got '$2', want '$3'"
    failed=$((failed + 1))
  fi
  sleep 0.1 2>/dev/null || sleep 1 # as a real suite takes its time
}

for pair in 1:I 4:IV 9:IX 14:XIV 40:XL 90:XC 400:CD 1994:MCMXCIV 2026:MMXXVI 3999:MMMCMXCIX; do
  check "roman ${pair%:*}" "$(sh roman.sh "${pair%:*}")" "${pair#*:}"
done
sh roman.sh 4000 >/dev/null 2>&1
check "4000 is refused" "$?" 2
sh roman.sh abc >/dev/null 2>&1
check "letters are refused" "$?" 2

echo "1..$n"
echo "$n tests, $((n - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
