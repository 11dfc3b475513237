package local

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// trust is who sandboxes trust, and whom their egress proxies do. The authority
// lives as long as the server and its key is nowhere but in memory.
type trust struct {
	file  string   // the machine's certificates and our own, for the sandboxes; empty without any of the machine's
	seats []string // where the machine keeps such a file
	roots *x509.CertPool
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// bundles are where systems keep the certificates that they trust, in one file.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// trustFile is the name of the sandboxes' certificates in the server's directory.
const trustFile = "ca-certificates.crt"

// authorityLife is how long the server's authority and what it signs are good
// for: as long as clients take at most.
const authorityLife = 397 * 24 * time.Hour

// newTrust makes an authority and writes what sandboxes trust to dir. extra
// names a file of more certificates, or none.
func newTrust(dir, extra string) (*trust, error) {
	t := &trust{leaves: make(map[string]*tls.Certificate)}
	var err error
	if t.roots, err = x509.SystemCertPool(); err != nil {
		return nil, fmt.Errorf("certificates of this machine: %w", err)
	}
	var more []byte
	if extra != "" {
		if more, err = os.ReadFile(extra); err != nil {
			return nil, fmt.Errorf("egress CA: %w", err)
		}
		if !t.roots.AppendCertsFromPEM(more) {
			return nil, fmt.Errorf("egress CA: %s holds no certificate in PEM", extra)
		}
	}
	if err := t.makeAuthority(); err != nil {
		return nil, fmt.Errorf("make the egress CA: %w", err)
	}
	for _, b := range bundles {
		real, err := filepath.EvalSymlinks(b)
		if err == nil && (strings.HasPrefix(real, "/etc/ssl/") || strings.HasPrefix(real, "/etc/pki/")) && !slices.Contains(t.seats, real) {
			t.seats = append(t.seats, real)
		}
	}
	system := os.Getenv("SSL_CERT_FILE")
	if system == "" && len(t.seats) > 0 {
		system = t.seats[0]
	}
	all, err := os.ReadFile(system)
	if system != "" && err != nil {
		return nil, fmt.Errorf("certificates of this machine: %w", err)
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: t.cert.Raw})
	t.file = filepath.Join(dir, trustFile)
	if err := os.WriteFile(t.file, bytes.Join([][]byte{all, more, own}, []byte("\n")), 0o644); err != nil {
		return nil, fmt.Errorf("write what sandboxes trust: %w", err)
	}
	return t, nil
}

func (t *trust) makeAuthority() (err error) {
	if t.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	ca := template(pkix.Name{CommonName: "Egress of this sandbox server"})
	ca.IsCA, ca.BasicConstraintsValid, ca.MaxPathLenZero = true, true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &t.key.PublicKey, t.key)
	if err == nil {
		t.cert, err = x509.ParseCertificate(der)
	}
	return err
}

func template(name pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife - time.Hour)}
}

// leaf is a certificate for one host.
func (t *trust) leaf(host string) (*tls.Certificate, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.leaves[host]; ok {
		return c, nil
	}
	c := template(pkix.Name{})
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	c.NotAfter = t.cert.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, c, t.cert, &t.key.PublicKey, t.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", host, err)
	}
	if len(t.leaves) > 1000 { // who asks for that many gets them, one after another
		clear(t.leaves)
	}
	t.leaves[host] = &tls.Certificate{Certificate: [][]byte{der, t.cert.Raw}, PrivateKey: t.key}
	return t.leaves[host], nil
}

// upstream is how a proxy looks at the server that a sandbox asked for.
func (t *trust) upstream() *tls.Config {
	return &tls.Config{RootCAs: t.roots, MinVersion: tls.VersionTLS12}
}

var errNotProxied = errors.New("no connection of a proxy's")

// downstream is how a sandbox sees the proxy in that server's place. Who takes
// both gets HTTP/1.1, whatever the server behind speaks: git before 2.44 with
// curl 7.84 to 8.4 hangs in long uploads over HTTP/2 (curl asks for more after
// the end of a body, and git waits for it). Who takes HTTP/2 alone gets it.
func (t *trust) downstream() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1", "h2"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, ok := h.Conn.(*proxied)
			if !ok {
				return nil, errNotProxied
			}
			return t.leaf(c.name)
		},
	}
}

// at is the same trust where its file is seen at another place.
func (t *trust) at(file string) *trust {
	if t == nil {
		return nil
	}
	return &trust{file: file, seats: t.seats}
}

// environment points programs that bring certificates of their own to those of
// the sandbox.
func (t *trust) environment(level Isolation) []string {
	file := t.file
	if level != None {
		if len(t.seats) == 0 {
			return nil
		}
		file = t.seats[0]
	}
	var env []string
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"} {
		env = append(env, name+"="+file)
	}
	return env
}
