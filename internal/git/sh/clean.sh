# Takes the desk away.
cd /
rm -rf "$desk"
emit
