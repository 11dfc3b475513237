# Takes the desk away, and with "all" whatever scripts that were killed left.
cd /
if [ "$1" = all ]; then
	rm -rf /dev/shm/.sandjet-git.*
fi
rm -rf "$desk"
emit
