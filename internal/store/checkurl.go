package store

import "errors"

// errURL is all that CheckURL says: what a parser finds fault with may be a part
// of a password that was not escaped.
var errURL = errors.New("want redis://[user:password@]host:port[/db], rediss://, " +
	"redis+sentinel://host:port?master_name=… or redis+cluster://host:port, with options that there are and the password escaped")

// CheckURL reports whether Open could read a Redis URL. It connects to nothing,
// and its error shows nothing of the URL.
func CheckURL(raw string) error {
	c, err := newClient(raw)
	if err != nil {
		return errURL
	}
	return c.Close()
}
