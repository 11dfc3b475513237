package schemas_test

import (
	"testing"

	"github.com/sandjet/sandjet/schemas"
)

const typicalRun = `{"id":"j7","session":"s1","argv":["go","test","./..."],"cwd":"/home/user/app",` +
	`"env":{"CGO_ENABLED":"0","GOFLAGS":"-mod=mod"},"timeout":"30m","labels":{"team":"core"}}`

func BenchmarkValidateRun(b *testing.B) {
	s, _ := schemas.Job("task.run")
	doc := []byte(typicalRun)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateInvalidRun(b *testing.B) {
	s, _ := schemas.Job("task.run")
	doc := []byte(`{"session":"s1","argv":["a"],"tiemout":"30m"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(doc); err == nil {
			b.Fatal("valid")
		}
	}
}
