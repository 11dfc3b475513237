package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/policy"
)

// examinePolicy reads a policy file as a worker would: a finding for each rule, in the
// order in which they are asked, or for each fault.
func examinePolicy(path string) []finding {
	const check = "policy"
	data, err := os.ReadFile(path)
	if err != nil {
		return []finding{{check, problem, err.Error(), "name a file that can be read"}}
	}
	var kinds []string
	for _, k := range jobs.Kinds() {
		kinds = append(kinds, string(k))
	}
	p, err := policy.Parse(path, data, kinds)
	if err != nil {
		return faults(check, err)
	}
	if len(p.Rules()) == 0 {
		return []finding{{check, warning, "has no rule: every job is refused", "add a rule"}}
	}
	var found []finding
	for _, r := range p.Rules() {
		found = append(found, fine(check, "line %d: rule %q", r.Line, r.Name))
	}
	return found
}

// faults has a finding for each error that is joined in err.
func faults(check string, err error) (found []finding) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		f := finding{Check: check, Level: problem, Says: err.Error(), ToDo: "a worker does not start with it, and a running one keeps the policy it has"}
		var fault *policy.Fault
		if errors.As(err, &fault) {
			f.Check = fmt.Sprintf("%s line %d", check, fault.Line)
		}
		found = append(found, f)
	}
	return found
}
