package local

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// sign makes the signature that stands in for a sandbox's token in the URL of
// a file transfer. expires is what the query says, or empty.
func sign(path, op, user, token, expires string) string {
	raw := path + ":" + op + ":" + user + ":" + token
	if expires != "" {
		raw += ":" + expires
	}
	sum := sha256.Sum256([]byte(raw))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func signatureOf(r *http.Request, q url.Values, token string) string {
	op := "read"
	if r.Method == http.MethodPost {
		op = "write"
	}
	return sign(q.Get("path"), op, q.Get("username"), token, q.Get("signature_expiration"))
}

// authorizeFile checks a file transfer: by its header, else by its signature.
func (s *sandbox) authorizeFile(r *http.Request, given string) error {
	if given != "" {
		if !sameSecret(given, s.rec.Token) {
			return failf(http.StatusUnauthorized, "access token present in header but does not match")
		}
		return nil
	}
	q := r.URL.Query()
	sig := q.Get("signature")
	switch {
	case sig == "":
		return failf(http.StatusUnauthorized, "missing signature query parameter")
	case !sameSecret(sig, signatureOf(r, q, s.rec.Token)):
		return failf(http.StatusUnauthorized, "invalid signature")
	}
	if e := q.Get("signature_expiration"); e != "" {
		at, err := strconv.ParseInt(e, 10, 64)
		if err != nil || time.Now().Unix() > at {
			return failf(http.StatusUnauthorized, "signature is already expired")
		}
	}
	return nil
}

// bySignature finds the sandbox of a signed URL that names none, which is what
// SDKs make when all sandboxes share one address.
func (s *Server) bySignature(r *http.Request) string {
	q := r.URL.Query()
	sig := q.Get("signature")
	if r.URL.Path != "/files" || sig == "" {
		return ""
	}
	for _, sb := range s.all() {
		if sb.rec.Token != "" && sameSecret(sig, signatureOf(r, q, sb.rec.Token)) {
			return sb.id()
		}
	}
	return ""
}
