package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
	"github.com/sandjet/sandjet/internal/git/local"
)

// hub plays GitHub. Each request of ours and each of its answers is held against
// GitHub's description.
type hub struct {
	*local.Hub
	t    *testing.T
	url  string
	stop func()
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h, err := local.NewHub(t.Errorf)
	require.NoError(t, err)
	h.Tokens["pat"] = time.Now().Add(time.Hour)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &hub{Hub: h, t: t, url: s.URL, stop: s.Close}
}

func (h *hub) remote() git.Remote {
	r, err := git.ParseURL(h.url + "/acme/app.git")
	if err != nil {
		panic(err)
	}
	return r
}

func (h *hub) forge(tokens github.Tokens) *github.Forge {
	h.t.Helper()
	f, err := github.New(github.Config{API: h.url, Tokens: tokens})
	require.NoError(h.t, err)
	return f
}

func pat(token string) github.Tokens {
	return github.Static(func(context.Context) (string, error) { return token, nil })
}

var appKey = sync.OnceValue(func() []byte {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
})

func (h *hub) calls(pattern string) int {
	re, n := regexp.MustCompile(pattern), 0
	for _, a := range h.Asked {
		if re.MatchString(a) {
			n++
		}
	}
	return n
}
