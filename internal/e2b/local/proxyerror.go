package local

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// proxyError is what the proxy itself says of a sandbox.
type proxyError struct {
	Sandbox string `json:"sandboxId"`
	Message string `json:"message"`
	Code    int    `json:"code"`
	Port    int    `json:"port,omitempty"`
}

// write answers in JSON, and with a page who looks at it in a browser.
func (e proxyError) write(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.UserAgent(), "Mozilla/") { // which all of them say
		writeJSON(w, e.Code, e)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(e.Code)
	where := "Sandbox " + e.Sandbox
	if e.Port != 0 {
		where += fmt.Sprintf(", port %d", e.Port)
	}
	_, _ = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>%[1]s</title>\n<h1>%[1]s</h1>\n<p>%[2]s</p>\n</html>\n",
		html.EscapeString(e.Message), html.EscapeString(where)) // the client may be gone; nothing to do about it
}

// writeGone answers for a sandbox that is unknown, killed or paused: the proxy
// cannot tell these apart.
func writeGone(w http.ResponseWriter, r *http.Request, id string) {
	proxyError{Sandbox: id, Message: "The sandbox was not found", Code: http.StatusBadGateway}.write(w, r)
}
