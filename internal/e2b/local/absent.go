package local

import (
	"net/http"
)

// absent are calls of E2B's API for what this server has not. Who lists finds
// nothing, who looks for one does not find it, who makes one is told.
var absent = map[string]*apiError{
	"POST /volumes":               failf(http.StatusForbidden, "this server has no volumes"),
	"GET /volumes/{id}":           failf(http.StatusNotFound, "volume not found: this server has none"),
	"DELETE /volumes/{id}":        failf(http.StatusNotFound, "volume not found: this server has none"),
	"POST /secrets":               failf(http.StatusForbidden, "this server has no secrets"),
	"GET /secrets/{id}":           failf(http.StatusNotFound, "secret not found: this server has none"),
	"POST /secrets/{id}":          failf(http.StatusNotFound, "secret not found: this server has none"),
	"DELETE /secrets/{id}":        failf(http.StatusNotFound, "secret not found: this server has none"),
	"POST /v3/templates":          errBuild,
	"POST /v2/templates":          errBuild,
	"POST /templates":             errBuild,
	"POST /templates/tags":        errTags,
	"DELETE /templates/tags":      errTags,
	"GET /templates/{id}/builds/": failf(http.StatusNotFound, "build not found: this server builds templates at its start, from --templates DIR"),
}

var (
	errBuild = failf(http.StatusForbidden, "templates are not built over the API here: this server builds them at its start, from --templates DIR")
	errTags  = failf(http.StatusNotFound, "templates have no tags here")
)

func none(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, []struct{}{})
	return nil
}

// ofTemplate answers GET /templates/aliases/{name}, whether a sandbox can be made of
// what has that name, and GET /templates/{name}/tags.
func (s *Server) ofTemplate(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("part")
	if r.PathValue("id") != "aliases" {
		return errTags
	}
	alias, _, ok := parseName(name)
	if !ok || (s.shelf.find(name) == nil && !s.hasTemplate(name)) {
		return errNoTemplate(name)
	}
	writeJSON(w, http.StatusOK, map[string]any{"templateID": alias, "public": false})
	return nil
}
