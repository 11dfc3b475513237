package local

import (
	"fmt"
	"os"
	"strconv"
)

// uidBase is added to a sandbox's ids to get the machine's when we are root:
// its users, its root too, are then nobody outside.
const uidBase = 100000

const userID = 1000 // of "user", inside

// account is one of the two users that every sandbox has.
type account struct {
	name     string
	home     string
	inner    int // uid and gid inside
	uid, gid int // on the machine; both -1 where ownership is not ours to give
}

// accounts knows the sandboxes' users. When the server is root they are two;
// an ordinary user's own id must serve as both.
type accounts struct{ mapped bool }

func newAccounts() accounts { return accounts{mapped: os.Getuid() == 0} }

// byName looks a user up; the empty name is the default user.
func (a accounts) byName(name string) (account, bool) {
	switch name {
	case "", "user":
		u := account{name: "user", home: "/home/user", inner: userID, uid: -1, gid: -1}
		if a.mapped {
			u.uid, u.gid = uidBase+userID, uidBase+userID
		}
		return u, true
	case "root":
		u := account{name: "root", home: "/root", uid: -1, gid: -1}
		if a.mapped {
			u.uid, u.gid = uidBase, uidBase
		}
		return u, true
	}
	return account{}, false
}

// name says who a file's owner is, as the sandbox sees it.
func (a accounts) name(uid uint32) string {
	id := int(uid)
	switch {
	case a.mapped && id == uidBase+userID, !a.mapped && id == os.Getuid():
		return "user"
	case id == 0, a.mapped && id == uidBase:
		return "root"
	}
	return strconv.Itoa(id)
}

const nobody = 65534

func (a accounts) passwd() string {
	return fmt.Sprintf("root:x:0:0:root:/root:/bin/bash\nuser:x:%d:%d:user:/home/user:/bin/bash\n"+
		"nobody:x:%d:%d:nobody:/nonexistent:/usr/sbin/nologin\n", userID, userID, nobody, nobody)
}

func (a accounts) group() string {
	return fmt.Sprintf("root:x:0:\ntty:x:5:\nuser:x:%d:\nnogroup:x:%d:\n", userID, nobody)
}
