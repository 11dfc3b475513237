package schemas

import (
	"embed"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed asyncapi.yaml common.json jobs events query
var files embed.FS

// Files returns the schema files and the AsyncAPI document, for those who want
// to read or serve them as they are.
func Files() fs.FS { return files }

// Job returns the schema of a job's body. ok is false if there is no such kind.
func Job(kind string) (s *Schema, ok bool) { return lookup("jobs/" + kind) }

// Event returns the schema of an event's payload, by the last token of the
// event's subject; the session record is "state" or "session.state". ok is
// false if there is no such kind or its payload is not JSON, as with stdout.
func Event(kind string) (s *Schema, ok bool) {
	if kind == "state" {
		kind = "session.state"
	}
	return lookup("events/" + kind)
}

// Request returns the schema of a question, by its subject without the
// namespace, as "api.session.get". ok is false if there is no such question.
func Request(subject string) (s *Schema, ok bool) { return question(subject, ".request") }

// Reply returns the schema of the answer to a question, by its subject.
func Reply(subject string) (s *Schema, ok bool) { return question(subject, ".reply") }

func question(subject, side string) (*Schema, bool) {
	name, ok := strings.CutPrefix(subject, "api.")
	if !ok {
		return nil, false
	}
	return lookup("query/" + name + side)
}

// Names lists the schemas by their file names without the extension, as
// "jobs/task.run", in alphabetical order.
func Names() []string {
	var names []string
	for _, dir := range []string{"events", "jobs", "query"} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic(err) // the folder is embedded
		}
		for _, e := range entries {
			names = append(names, path.Join(dir, strings.TrimSuffix(e.Name(), ".json")))
		}
	}
	return names
}

// registry knows every schema by name. Nothing is read or compiled before a
// schema is first used, so that a command line tool starts quickly.
var registry = sync.OnceValue(func() map[string]*Schema {
	all := make(map[string]*Schema)
	for _, name := range Names() {
		all[name] = newSchema(name)
	}
	return all
})

func lookup(name string) (*Schema, bool) {
	s, ok := registry()[name]
	return s, ok
}
