package local

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
)

// clientID is the constant that E2B still puts into every answer.
const clientID = "6532622b"

const idLetters = "abcdefghijklmnopqrstuvwxyz0123456789"

var (
	idForm      = regexp.MustCompile(`^[a-z0-9]+$`)     // as callers may write one
	sandboxForm = regexp.MustCompile(`^i[a-z0-9]{20}$`) // as newID makes it
)

// newID makes a sandbox id in E2B's form: "i" and 20 letters or digits.
func newID() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = idLetters[int(b[i])%len(idLetters)]
	}
	return "i" + string(b)
}

// parseID takes an id as callers write it, the old "<id>-<client>" included.
func parseID(s string) (string, bool) {
	id, _, _ := strings.Cut(s, "-")
	return id, idForm.MatchString(id)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// newToken makes the secret that leads into one sandbox.
func newToken() string { return "ea_" + randomHex(16) }
