package git

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
)

// Credential is what a remote is asked with. The zero value asks with nothing.
// Printed or logged it shows nothing of itself.
type Credential struct {
	// Username and Password are for https. An empty username with a password is
	// "x-access-token", as GitHub's tokens want it.
	Username, Password string
	// Key is a private SSH key in OpenSSH's form, without a passphrase.
	Key []byte
	// KnownHosts are the lines of known_hosts that the server must match. Empty
	// is KnownHosts of github.com, and nobody's for any other host.
	KnownHosts []byte
}

// GitHubKnownHosts is the key that github.com publishes.
const GitHubKnownHosts = "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"

const defaultUsername = "x-access-token"

// String hides the credential.
func (c Credential) String() string {
	switch {
	case c.Password != "":
		return "[password]"
	case len(c.Key) > 0:
		return "[key]"
	}
	return "[none]"
}

// GoString hides the credential.
func (c Credential) GoString() string { return c.String() }

// LogValue hides the credential.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON hides the credential.
func (c Credential) MarshalJSON() ([]byte, error) { return []byte(`"` + c.String() + `"`), nil }

// User is the name that goes with the password.
func (c Credential) User() string { return cmp.Or(c.Username, defaultUsername) }

// check returns what keeps the credential from being used with a remote. It does
// not repeat any of it.
func (c Credential) check(r Remote) error {
	switch {
	case strings.ContainsAny(c.Username+c.Password, "\r\n\x00"):
		return errors.New("the credential holds a line break")
	case r.Scheme == "ssh" && len(c.Key) == 0:
		return errors.New("an ssh address wants a key: give a deploy key, or the https address with a token")
	case r.Scheme != "ssh" && len(c.Key) > 0 && c.Password == "":
		return errors.New("an https address wants a token, not a key: give the ssh address, or a token")
	}
	return nil
}

// payload is what of the credential a script gets, and which server it is for.
func (c Credential) payload(r Remote) (p payload, host string) {
	switch {
	case r.Scheme == "ssh" && len(c.Key) > 0:
		known := string(c.KnownHosts)
		if known == "" && r.Host == "github.com" {
			known = GitHubKnownHosts
		}
		key := strings.TrimRight(string(c.Key), "\r\n") + "\n" // ssh wants the last line ended
		p.add("key", key)
		p.add("known_hosts", known)
	case r.Scheme != "ssh" && c.Password != "":
		p.add("username", c.User())
		p.add("password", c.Password)
	}
	return p, "protocol=" + r.Scheme + ",host=" + r.Host
}

// scrub takes the credential out of a text, should a server have sent it back.
func (c Credential) scrub(s string) string {
	if len(c.Password) >= 4 {
		s = strings.ReplaceAll(s, c.Password, "***")
	}
	return s
}
